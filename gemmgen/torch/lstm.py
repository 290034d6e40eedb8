"""torch.nn.LSTM for inference: a step of a layer is one launch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from gemmgen.arrays.kernel import ArrayKernel
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.operands import ACCUMULATORS
from gemmgen.problem.types import Types
from gemmgen.support.errors import require

# Gates in the order of an LSTM's epilogue: forget, input, candidate, output. torch has the input gate first.
GATES = [1, 0, 2, 3]
BIASES = ("bias_n", "bias_n2", "bias_n3", "bias_n4")
INPUTS = ("residual2", "residual3", "residual4", "residual5")  # the products of x with the weights of each gate
FORGET, INPUT, CANDIDATE, OUTPUT = (
    f"{acc} + {bias} + {of_x}" for acc, bias, of_x in zip(ACCUMULATORS, BIASES, INPUTS, strict=True)
)
STATE = f"sigmoid({FORGET}) * residual + sigmoid({INPUT}) * tanh({CANDIDATE})"
EPILOGUE = f"sigmoid({OUTPUT}) * tanh(aux({STATE}))"
CHUNK = 2**24  # products of x at a time, at most: of f32 64 MB
DTYPES = torch.bfloat16, torch.float16, torch.float32


class LSTM(torch.nn.Module):
    """y, (h, c) = lstm(x, (h, c)), like torch.nn.LSTM, for inference.

    lstm     a torch.nn.LSTM in one direction, without projections, of bf16, f16 or f32. Its weights are copied
    kernels  two kernels for each layer, of `LSTM.problems`; layers of one size may share theirs

    A batch of products multiplies the x of all steps by the weights of the four gates. Then a step is one launch: it
    multiplies h by the weights of all gates, adds these products, and has the gates' functions and the cell's state,
    which is f32 for bf16 and f16, in its epilogue. No step waits for the host, so a call may be recorded as a CUDA
    graph; torch.compile does not trace it.

    Raises InvalidInput for another kind of LSTM or another kernel, and for x that requires a gradient.
    """

    def __init__(self, lstm: Any, kernels: Sequence[tuple[ArrayKernel, ArrayKernel]]) -> None:
        super().__init__()
        _require_kind(lstm)
        require(len(kernels) == lstm.num_layers, f"kernels of {len(kernels)} layers: the LSTM has {lstm.num_layers}")
        self.input_size, self.hidden_size, self.batch_first = lstm.input_size, lstm.hidden_size, lstm.batch_first
        self._kernels = tuple(kernels)
        for layer, both in enumerate(kernels):
            for kernel, wanted in zip(both, self.problems(lstm, both[1].source.problem.m)[layer], strict=True):
                found = kernel.source.problem
                require(
                    _fields(found) == _fields(wanted),
                    f"{kernel.name} computes {found}: layer {layer} needs {wanted} (LSTM.problems)",
                )
            of_x, of_h, bias = _weights(lstm, layer)
            self.register_buffer(f"weight_x_{layer}", of_x)
            self.register_buffer(f"weight_h_{layer}", of_h)
            self.register_buffer(f"bias_{layer}", bias)

    @staticmethod
    def problems(lstm: Any, batch: int | None, steps: int = 64) -> list[tuple[Problem, Problem]]:
        """The two problems of each layer: the products of x, tuned for `steps` steps, and a step's, for `batch`
        sequences at once, None: for any number."""
        _require_kind(lstm)
        types = Types.of(DType.of(lstm.weight_hh_l0.dtype))
        to_sums = replace(types, c=types.scalar)
        h, found = lstm.hidden_size, []
        for layer in range(lstm.num_layers):
            features = h if layer else lstm.input_size
            typical = {"M": steps * (batch or 64)}
            of_x = Problem(None, h, features, types=to_sums, layout="rc", batch=4, stride_a=0, typical=typical)
            found.append((of_x, Problem(batch, h, h, types=types, layout="rc", epilogue=EPILOGUE)))
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
        multiply, step = self._kernels[layer]
        of_x, of_h, bias = (getattr(self, f"{name}_{layer}") for name in ("weight_x", "weight_h", "bias"))
        biases = dict(zip(BIASES, bias, strict=True))
        x = x.contiguous()
        steps, batch, _ = x.shape
        precise = torch.promote_types(x.dtype, torch.float32)
        hidden = x.new_empty((steps + 1, batch, self.hidden_size))  # before the first step, and behind each
        states = x.new_empty((2, *hidden.shape[1:]), dtype=precise)  # before a step and behind it
        hidden[0], states[0] = h, c
        most = max(1, CHUNK // hidden[0].numel() // len(GATES))
        for first in range(0, steps, most):
            some = x[first : first + most].flatten(0, 1)
            products = multiply(some, of_x.mT).unflatten(1, (-1, batch))
            for place in range(products.shape[1]):
                number = first + place
                old, new = states[number % 2], states[1 - number % 2]
                given = dict(zip(INPUTS, products[:, place], strict=True))
                step(hidden[number], of_h.t(), hidden[number + 1], residual=old, aux=new, **given, **biases)
        return hidden[1:], hidden[-1], states[steps % 2].to(x.dtype)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}, num_layers={len(self._kernels)}, batch_first={self.batch_first}"


def _fields(problem: Problem) -> tuple[Any, ...]:
    """The fields of a problem that an LSTM relies on."""
    return problem.n, problem.k, problem.types, problem.layout, problem.epilogue, problem.batch, problem.stride_a


def _require_kind(lstm: Any) -> None:
    require(isinstance(lstm, torch.nn.LSTM), f"{type(lstm).__name__} is no torch.nn.LSTM")
    require(not lstm.bidirectional, "the LSTM is bidirectional: kernels are for one direction")
    require(lstm.proj_size == 0, f"the LSTM has projections to {lstm.proj_size}: kernels have none")
    require(not (lstm.training and lstm.dropout), "the LSTM drops outputs in training: call eval() first")
    dtype = lstm.weight_hh_l0.dtype
    require(dtype in DTYPES, f"weights of {dtype}: kernels are for bf16, f16 and f32")


def _weights(lstm: Any, layer: int) -> tuple[Any, Any, Any]:
    """(x's weights, 4 x H x I; h's, 4 H x H; the sums of the biases, 4 x H), in the order of GATES."""
    h = lstm.hidden_size
    of_x, of_h = (
        getattr(lstm, f"weight_{which}_l{layer}").detach().view(4, h, -1)[GATES].contiguous() for which in ("ih", "hh")
    )
    if not lstm.bias:
        return of_x, of_h.flatten(0, 1), of_h.new_zeros((4, h), dtype=torch.float32)
    both = (getattr(lstm, f"bias_{which}_l{layer}").detach().float() for which in ("ih", "hh"))
    return of_x, of_h.flatten(0, 1), sum(both).view(4, h)[GATES].contiguous()
