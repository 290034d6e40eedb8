"""The experts of a mixture by kernels, and the function that replaces those of a model."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch

from gemmgen.problem.epilogue import parse_epilogue
from gemmgen.problem.gemm import Problem
from gemmgen.problem.inputs import Inputs
from gemmgen.support.errors import require
from gemmgen.torch.operator import PRODUCTS, Kernel, extent, gemm, registered
from gemmgen.torch.replace import KernelsFor

WEIGHTS = ("gate_up_proj", "down_proj")
ARGUMENTS = ("hidden_states", "top_k_index", "top_k_weights")  # of the forward that is replaced
# Epilogues that multiply rows by the router's weights: the first, made of forms, goes into names of libraries' kernels.
WEIGHTED = tuple(map(parse_epilogue, ("scale_m", "alpha * acc * scale_m", "acc * scale_m")))
# Epilogues of gated products by the function of the gate.
GATES: dict[str, Callable[[Any], Any]] = {
    "swiglu": torch.nn.functional.silu,
    "geglu": torch.nn.functional.gelu,
    "gelu_tanh(acc) * acc2": partial(torch.nn.functional.gelu, approximate="tanh"),
    "relu(acc) * acc2": torch.relu,
}
PROBED = 12.0  # functions that agree from minus this to this are one, so that a clamp at 10 is seen


def replace_experts(model: Any, kernels_for: KernelsFor) -> list[str]:
    """Replace the experts of each mixture in a model of transformers 5 by `Experts`; return their names.

    kernels_for  returns the kernels for a module of experts, those of `Experts.problems`; modules of one shape can
                 share them. A module without kernels stays as it is

    The weights stay the same Parameters, of the same names. Raises InvalidInput, before anything is replaced, if the
    model has no experts, for experts that kernels do not compute, with the reason, and for kernels that do not fit.
    """
    found = {name: module for name, module in model.named_modules() if name and _holds_experts(name, module)}
    known = " and ".join(WEIGHTS)
    require(len(found) > 0, f"{type(model).__name__} has no experts: no module holds {known} of three dimensions")
    for name, module in found.items():
        _require_kind(module, name)
    replaced = {}
    for name, module in found.items():
        kernels = kernels_for(module)
        if kernels:
            replaced[name] = Experts(module, kernels)
    for name, experts in replaced.items():
        model.set_submodule(name, experts)
    return [*replaced]


class Experts(torch.nn.Module):
    """The experts of a mixture by kernels, for inference, with transformers' weights and arguments.

    experts  a module of transformers 5 that holds gate_up_proj and down_proj, with which it shares these Parameters
    kernels  kernels for both of `Experts.problems`, fused or not, and gathered and scattered or not: one for any number
             of rows each, and maybe some for a fixed number, which come first. A product of a library may stand in for
             a kernel that is neither gathered nor scattered

    Pairs of a token and an expert are sorted by expert on the device, and kernels read there where the rows of each
    expert end. So no call waits for the host: it may be recorded as a CUDA graph, and torch.compile traces it. The
    results of a token's experts are summed in order, not by atomics, so that a call repeats its bits.

    Raises InvalidInput for experts of another kind, for other kernels, and where a gradient is required.
    """

    def __init__(self, experts: Any, kernels: Sequence[Kernel]) -> None:
        super().__init__()
        ways = [
            {"fused": fused, "gathered": by_index, "scattered": by_index}
            for by_index in (False, True)
            for fused in (True, False)
        ]
        pairs = list(zip(*(self.problems(experts, **way) for way in ways), strict=True))
        for kernel in kernels:
            told = " and ".join(str(fused) for fused, *_ in pairs)
            takes = any(_computes(kernel, problem) for pair in pairs for problem in pair)
            require(takes, f"{kernel.name} computes {kernel.source.problem}: experts need {told}")
        self._gate_up, self._down = (_Kernels(pair, kernels) for pair in pairs)
        self.gate_up_proj, self.down_proj, self.act_fn = experts.gate_up_proj, experts.down_proj, experts.act_fn
        self.num_experts = self.gate_up_proj.shape[0]
        self._transposed = _transposed(experts)
        numbers = torch.arange(self.num_experts, dtype=torch.int32, device=self.gate_up_proj.device)
        self.register_buffer("_numbers", numbers, persistent=False)

    @staticmethod
    def problems(
        experts: Any,
        rows: int | None = None,
        *,
        typical: int | None = None,
        fused: bool = True,
        gathered: bool = False,
        scattered: bool = False,
    ) -> tuple[Problem, Problem]:
        """The product with the weights of gate and up, and that with those of the down projection.

        rows       number of pairs of a token and an expert, which kernels are built for; None: any
        typical    what number to tune them for if they are built for any
        fused      whether kernels apply the gate, and the router's weights; otherwise torch does
        gathered   whether the first kernel gathers tokens by an index; otherwise torch copies them in experts' order
        scattered  whether the second kernel stores its rows in the tokens' order; otherwise torch copies them
        """
        _require_kind(experts, type(experts).__name__)
        groups, n, k = experts.down_proj.shape
        if _transposed(experts):
            n, k = k, n
        fields: dict[str, Any] = {
            "dtype": experts.down_proj.dtype,
            "layout": "rr" if _transposed(experts) else "rc",
            "typical": {} if typical is None else {"M": typical},
        }
        up, down = (
            fields | {"inputs": Inputs(groups=groups, gathered=gathered)},
            fields | {"inputs": Inputs(groups=groups, scattered=scattered)},
        )
        if not fused:
            return Problem(rows, 2 * k, n, **up), Problem(rows, n, k, **down)
        gate = _gate_of(experts.act_fn)
        return Problem(rows, k, n, epilogue=gate, **up), Problem(rows, n, k, epilogue=WEIGHTED[0], **down)

    def forward(self, hidden_states: Any, top_k_index: Any, top_k_weights: Any) -> Any:
        up, down = self.gate_up_proj, self.down_proj
        if torch.is_grad_enabled():
            given = hidden_states, top_k_weights, up, down
            learns = any(one.requires_grad for one in given)
            require(not learns, "a gradient is required, and Experts have none: call them in torch.no_grad()")
        same = top_k_index.shape == top_k_weights.shape
        require(same, f"top_k_index is {tuple(top_k_index.shape)}, and top_k_weights {tuple(top_k_weights.shape)}")
        if not self._transposed:
            up, down = up.mT, down.mT
        tokens, chosen = top_k_index.shape
        expert, order = torch.sort(top_k_index.reshape(-1).to(torch.int32), stable=True)
        offs = torch.searchsorted(expert, self._numbers, right=True, out_int32=True)
        x, token = hidden_states.to(up.dtype), order // chosen

        kernel = self._gate_up.of(order.shape[0])
        if "index_a" in kernel.traced.operands:
            hidden = _run(kernel, x, up, offs=offs, index_a=token.to(torch.int32))
        else:
            hidden = _run(kernel, x[token], up, offs=offs)
        if kernel.traced.products == 1:
            gate, hidden = hidden.chunk(2, 1)
            hidden = self.act_fn(gate) * hidden
        y = self._weighted(hidden, down, offs, order, top_k_weights.reshape(-1).float())
        return y.view(tokens, chosen, y.shape[1]).sum(1).to(hidden_states.dtype)

    def _weighted(self, hidden: Any, down: Any, offs: Any, order: Any, weights: Any) -> Any:
        """The second product, multiplied by the router's `weights`: a row for each of the pairs 0, 1, 2, ..."""
        kernel = self._down.of(order.shape[0])
        operands = {"offs": offs}
        if "scale_m" in kernel.traced.operands:
            operands["scale_m"] = weights[order]
        if "index_c" in kernel.traced.operands:
            operands["index_c"] = order.to(torch.int32)
        y = _run(kernel, hidden, down, **operands)
        if "index_c" not in operands:
            y = _in_order(y, order)
        return y if "scale_m" in operands else y * weights[:, None]

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={extent(getattr(self, name).shape)}" for name in WEIGHTS)


class _Kernels:
    """The kernels for one of a mixture's products: the number of rows chooses."""

    def __init__(self, problems: tuple[Problem, ...], kernels: Sequence[Kernel]) -> None:
        fitting = [kernel for kernel in kernels if any(_computes(kernel, one) for one in problems)]
        self._fixed = [(kernel.source.problem.m, kernel) for kernel in fitting if kernel.source.problem.m is not None]
        general = [kernel for kernel in fitting if kernel.source.problem.m is None]
        names = ", ".join(kernel.name for kernel in kernels) or "none"
        told = f"a kernel for {problems[0]} is needed, for any number of rows: there are {names}"
        require(len(general) > 0, told)
        self._general = general[0]
        for kernel in fitting:
            registered(kernel)

    def of(self, rows: Any) -> Kernel:
        for number, kernel in self._fixed:
            if number == rows:  # a comparison, as tracing makes a guard of it: a dict would fix the number
                return kernel
        return self._general


def _computes(kernel: Kernel, wanted: Problem) -> bool:
    found = kernel.source.problem
    sizes = found.n in (None, wanted.n) and found.k in (None, wanted.k)
    same = (found.types, found.layout, found.inputs) == (wanted.types, wanted.layout, wanted.inputs)
    alike = next((some for some in (PRODUCTS, WEIGHTED) if wanted.epilogue in some), (wanted.epilogue,))
    return sizes and same and found.epilogue in alike


def _run(kernel: Kernel, a: Any, b: Any, **operands: Any) -> Any:
    return gemm(kernel, a, b, **operands) if torch.compiler.is_compiling() else kernel(a, b, **operands)


def _in_order(y: Any, order: Any) -> Any:
    """The rows of the pairs 0, 1, 2, ..., where y has those of `order`."""
    if (
        torch.compiler.is_compiling()
    ):  # a gather becomes one kernel with the sum behind it; a scatter has fewer launches
        places = torch.empty_like(order)
        places[order] = torch.arange(order.shape[0], device=order.device)
        return y[places]
    found = torch.empty_like(y)
    found[order] = y
    return found


def _holds_experts(name: str, module: Any) -> bool:
    if isinstance(module, torch.nn.ModuleList):
        return name.rpartition(".")[2] == "experts"
    return any(getattr(module._parameters.get(one), "ndim", 0) == 3 for one in WEIGHTS)


def _require_kind(experts: Any, name: str) -> None:
    reason = next(_lacks(experts), None)
    require(reason is None, f"{name} is not computed by kernels: {reason}")


def _lacks(experts: Any) -> Iterator[str]:
    """Why experts are not those that kernels compute: gated ones with weights alone, computed as transformers says."""
    if isinstance(experts, torch.nn.ModuleList):
        yield f"it is a ModuleList of {len(experts)} modules. From transformers 5 on two tensors hold all weights"
    yield from _lacks_of_weights(experts)
    yield from _lacks_of_forward(experts)


def _lacks_of_weights(experts: Any) -> Iterator[str]:
    tensors = {name for name, _ in (*experts.named_parameters(), *experts.named_buffers())}
    children = {name for name, _ in experts.named_children()}
    if tensors != {*WEIGHTS} or not children <= {"act_fn"}:
        yield f"it has {', '.join(sorted(tensors | children))}, and kernels compute {', '.join(WEIGHTS)} and act_fn"
    up, down = (getattr(experts, one) for one in WEIGHTS)
    if not _lies(up, down) and not _lies(up.mT, down.mT):
        yield f"gate_up_proj is {extent(up.shape)}, down_proj {extent(down.shape)}: E x 2I x H and E x H x I are known"
    if not getattr(experts, "is_concatenated", True):
        yield "gate and up alternate in gate_up_proj: kernels take one behind the other"
    if getattr(experts, "_is_expert_parallel", False):
        yield "its experts are spread over several devices"


def _lacks_of_forward(experts: Any) -> Iterator[str]:
    forward = type(experts).forward
    arguments = tuple(inspect.signature(forward).parameters)[1:]
    if arguments != ARGUMENTS:
        yield f"its forward takes {', '.join(arguments)}: {', '.join(ARGUMENTS)} are known"
    if not hasattr(forward, "__wrapped__"):
        yield "its forward is its own: transformers' use_experts_implementation lets others stand in for it"
    gate = getattr(type(experts), "_apply_gate", None)
    if gate is not None and gate.__name__ != "_default_apply_gate":
        yield f"it has a gate of its own, {gate.__qualname__}"
    act = getattr(experts, "act_fn", None)
    if _gate_of(act) is None:
        yield f"its act_fn is {type(act).__name__}: kernels have {', '.join(GATES)}"


def _lies(up: Any, down: Any) -> bool:
    """Whether weights are E x 2I x H and E x H x I."""
    return up.ndim == down.ndim == 3 and tuple(up.shape) == (down.shape[0], 2 * down.shape[2], down.shape[1])


def _transposed(experts: Any) -> bool:
    return not _lies(experts.gate_up_proj, experts.down_proj)


def _gate_of(function: Any) -> Any:
    """The epilogue whose gate is this function; None if none is."""
    points = torch.linspace(-PROBED, PROBED, 97, dtype=torch.float64, device="cpu")
    found = function(points) if callable(function) else points.new_full((1,), torch.nan)
    alike = (text for text, gate in GATES.items() if torch.allclose(found, gate(points), rtol=1e-7, atol=1e-7))
    text = next(alike, None)
    return None if text is None else parse_epilogue(text)
