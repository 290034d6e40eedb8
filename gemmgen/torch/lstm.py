"""torch.nn.LSTM for inference: a step of a layer is one launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gemmgen.arrays.kernel import ArrayKernel
from gemmgen.problem.gemm import Problem
from gemmgen.problem.types import Types
from gemmgen.support.errors import require

# Gates in the order of an LSTM's epilogue: forget, input, candidate, output. torch has the input gate first.
GATES = [1, 0, 2, 3]
BIASES = ("bias_n", "bias_n2", "bias_n3", "bias_n4")
STATE = "sigmoid(acc + bias_n) * residual + sigmoid(acc2 + bias_n2) * tanh(acc3 + bias_n3)"
EPILOGUE = f"sigmoid(acc4 + bias_n4) * tanh(aux({STATE}))"
LABELS = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32"}


class LSTM(torch.nn.Module):
    """y, (h, c) = lstm(x, (h, c)), like torch.nn.LSTM, for inference.

    lstm     a torch.nn.LSTM in one direction, without projections, of bf16, f16 or f32. Its weights are copied
    kernels  a kernel for each layer, of `LSTM.problems`; layers of one size may share theirs

    A step multiplies x and h, which lie side by side, by the weights of all gates. The kernel's epilogue has the gates'
    functions and the cell's state, which is f32 for bf16 and f16, and stores h beside the next step's x. No step waits
    for the host, so a call may be recorded as a CUDA graph; torch.compile does not trace it.

    Raises InvalidInput for another kind of LSTM or another kernel, and for x that requires a gradient.
    """

    def __init__(self, lstm: Any, kernels: Sequence[ArrayKernel]) -> None:
        super().__init__()
        _require_kind(lstm)
        require(len(kernels) == lstm.num_layers, f"{len(kernels)} kernels: the LSTM has {lstm.num_layers} layers")
        self.input_size, self.hidden_size, self.batch_first = lstm.input_size, lstm.hidden_size, lstm.batch_first
        self._kernels = tuple(kernels)
        for layer, kernel in enumerate(kernels):
            wanted, found = self.problems(lstm, kernel.source.problem.m)[layer], kernel.source.problem
            require(
                _step(found) == _step(wanted),
                f"{kernel.name} computes {found}: layer {layer} needs {wanted} (LSTM.problems)",
            )
            weights, bias = _weights(lstm, layer)
            self.register_buffer(f"weight_{layer}", weights)
            self.register_buffer(f"bias_{layer}", bias)

    @staticmethod
    def problems(lstm: Any, batch: int | None) -> list[Problem]:
        """The problem of each layer's step for so many sequences at once, None: for any number."""
        _require_kind(lstm)
        types = Types.parse(LABELS[lstm.weight_hh_l0.dtype])
        h, found = lstm.hidden_size, []
        for layer in range(lstm.num_layers):
            line = h + (h if layer else lstm.input_size)  # x and h
            lds = {"ldc": line, "ld_residual": line}
            found.append(Problem(batch, h, line, types=types, layout="rc", epilogue=EPILOGUE, **lds))
        return found

    def forward(self, x: Any, state: tuple[Any, Any] | None = None) -> tuple[Any, tuple[Any, Any]]:
        learns = torch.is_grad_enabled() and x.requires_grad
        require(not learns, "x requires a gradient, and an LSTM of kernels has none")
        require(
            x.dim() in (2, 3), f"x has {x.dim()} dimensions: it is steps x sequences x features, or steps x features"
        )
        alone = x.dim() == 2
        y = x.unsqueeze(1) if alone else x.transpose(0, 1) if self.batch_first else x
        if state is None:
            shape = len(self._kernels), y.shape[1], self.hidden_size
            state = x.new_zeros(shape), x.new_zeros(shape)
        elif alone:
            state = state[0].unsqueeze(1), state[1].unsqueeze(1)
        ends = []
        for layer in range(len(self._kernels)):
            y, *end = self._layer(layer, y, state[0][layer], state[1][layer])
            ends.append(end)
        h, c = (torch.stack(of_layers) for of_layers in zip(*ends, strict=True))
        if alone:
            return y.squeeze(1), (h.squeeze(1), c.squeeze(1))
        return y.transpose(0, 1) if self.batch_first else y, (h, c)

    def _layer(self, layer: int, x: Any, h: Any, c: Any) -> tuple[Any, Any, Any]:
        """All steps of a layer: its outputs, the last h and the last c. x is steps x sequences x features."""
        kernel, weight = self._kernels[layer], getattr(self, f"weight_{layer}").t()
        biases = dict(zip(BIASES, getattr(self, f"bias_{layer}"), strict=True))
        steps, batch, features = x.shape
        lines = x.new_empty((steps + 1, batch, features + self.hidden_size))  # x and h of each step
        lines[:-1, :, :features] = x
        lines[0, :, features:] = h
        precise = torch.promote_types(x.dtype, torch.float32)
        states = x.new_empty((2, *lines.shape[1:]), dtype=precise)[
            ..., : self.hidden_size
        ]  # before a step and behind it
        states[0] = c
        for step in range(steps):
            old, new = states[step % 2], states[1 - step % 2]
            kernel(lines[step], weight, lines[step + 1, :, features:], residual=old, aux=new, **biases)
        hidden = lines[1:, :, features:]
        return hidden, lines[-1, :, features:], states[steps % 2].to(x.dtype)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}, num_layers={len(self._kernels)}, batch_first={self.batch_first}"


def _step(problem: Problem) -> tuple[Any, ...]:
    """The fields of a step's problem that an LSTM relies on."""
    return problem.n, problem.k, problem.types, problem.layout, problem.epilogue, problem.ldc


def _require_kind(lstm: Any) -> None:
    require(isinstance(lstm, torch.nn.LSTM), f"{type(lstm).__name__} is no torch.nn.LSTM")
    require(not lstm.bidirectional, "the LSTM is bidirectional: kernels are for one direction")
    require(lstm.proj_size == 0, f"the LSTM has projections to {lstm.proj_size}: kernels have none")
    require(not (lstm.training and lstm.dropout), "the LSTM drops outputs in training: call eval() first")
    dtype = lstm.weight_hh_l0.dtype
    require(dtype in LABELS, f"weights of {dtype}: kernels are for bf16, f16 and f32")


def _weights(lstm: Any, layer: int) -> tuple[Any, Any]:
    """(the weights of x and h side by side, 4 H x (I + H); the sums of the biases, 4 x H), in the order of GATES."""
    h = lstm.hidden_size
    of_x, of_h = (getattr(lstm, f"weight_{which}_l{layer}").detach() for which in ("ih", "hh"))
    weights = torch.cat([of_x, of_h], 1).view(4, h, -1)[GATES].reshape(4 * h, -1)
    if not lstm.bias:
        return weights, weights.new_zeros((4, h), dtype=torch.float32)
    both = (getattr(lstm, f"bias_{which}_l{layer}").detach().float() for which in ("ih", "hh"))
    return weights, sum(both).view(4, h)[GATES].contiguous()
