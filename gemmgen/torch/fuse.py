"""Puts kernels of convolutions into a model, each with the layers behind it, by torch.fx."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx
from torch.fx.passes.shape_prop import ShapeProp

from gemmgen.problem.gemm import Problem
from gemmgen.support.errors import InvalidInput, require
from gemmgen.torch.fused import FusedConv2d
from gemmgen.torch.operator import Kernel, extent

KernelsFor = Callable[[Problem], Sequence[Kernel]]

_ADDS = (operator.add, operator.iadd, torch.add, "add", "add_")
_RELUS = (torch.relu, torch.nn.functional.relu, "relu", "relu_")
# Functions of Python's module operator that write their first argument.
_IN_PLACE = ("iadd", "isub", "imul", "itruediv", "ipow", "iand", "ior", "ixor", "setitem")
_IDLE = (torch.nn.Identity, torch.nn.Dropout, torch.nn.Dropout2d)  # which return x in eval mode
# Modules whose result is a new tensor, no view of x.
_NEW = (FusedConv2d, torch.nn.Conv2d, torch.nn.BatchNorm2d, torch.nn.MaxPool2d, torch.nn.AvgPool2d)


@dataclass(frozen=True)
class Convolutions:
    """The convolutions of a model that kernels can compute.

    problems  names of layers by the problem of their kernel: layers of one problem share kernels
    left      why torch computes the other torch.nn.Conv2d, by their names
    """

    problems: dict[Problem, list[str]]
    left: dict[str, str]


def convolutions_of(model: Any, x: Any) -> Convolutions:
    """Return the problems that `fuse_convs` would ask kernels for, with the same model and x."""
    _, layers, left = _traced(model, x)
    problems: dict[Problem, list[str]] = {}
    for layer in layers:
        problems.setdefault(layer.problem, []).append(layer.name)
    return Convolutions(problems, left)


def fuse_convs(model: Any, x: Any, kernels_for: KernelsFor) -> Any:
    """Return the model with convolutions by kernels, for inference: a torch.fx.GraphModule.

    A BatchNorm2d behind a convolution is folded into its weight and bias, and the sum with a residual and the ReLU that
    follow become the kernel's epilogue. `model` stays as it is; layers that are not fused are shared with it. Attribute
    `left` of the result says why torch computes the other torch.nn.Conv2d, by their names.

    model        a module in eval mode that torch.fx.symbolic_trace takes, in torch.channels_last
    x            an input, or a tuple of them, on which the model is run once: layers are for its sizes, and kernels for
                 its number of images; torch computes other ones
    kernels_for  returns the kernels for a problem: those with its M or with any M. It is called once for each of
                 `convolutions_of`. Layers stay as they are if it returns none

    Raises InvalidInput for a model in training mode, and for kernels of another problem.
    """
    traced, layers, left = _traced(model, x)
    known: dict[Problem, Sequence[Kernel]] = {}
    for layer in layers:
        if layer.problem not in known:
            known[layer.problem] = kernels_for(layer.problem)
        if known[layer.problem]:
            layer.fused.use(known[layer.problem])
            _replace(traced, layer)
        else:
            left[layer.name] = f"there is no kernel for {layer.problem}"
    for node in traced.graph.nodes:
        fused = _module(traced, node)
        if isinstance(fused, FusedConv2d) and fused.adds:
            fused.overwrites = _is_last(traced, node)
    traced.delete_all_unused_submodules()
    traced.graph.lint()
    traced.recompile()
    traced.left = left
    return traced


@dataclass
class _Layer:
    """A convolution in a graph.

    nodes  the convolution's, those behind it that become part of it, and the last one has the result
    sum    the one of them that adds a residual, or None
    """

    name: str
    nodes: list[Any]
    fused: FusedConv2d
    problem: Problem
    sum: Any


def _traced(model: Any, x: Any) -> tuple[Any, list[_Layer], dict[str, str]]:
    """The graph of a model, its layers that kernels can compute, and why the others are left."""
    for name, module in model.named_modules():
        require(not module.training, f"{name or 'the model'} is in training mode: call model.eval() first")
    if type(model) is torch.nn.Conv2d:  # whose inside would be traced
        model = torch.nn.Sequential(model).eval()
    traced = torch.fx.symbolic_trace(model)
    for node in [one for one in traced.graph.nodes if isinstance(_module(traced, one), _IDLE) and len(one.args) == 1]:
        node.replace_all_uses_with(node.args[0])
        traced.graph.erase_node(node)
    traced.recompile()
    with torch.no_grad():
        ShapeProp(traced).propagate(*(x if isinstance(x, tuple) else (x,)))
    layers: list[_Layer] = []
    left: dict[str, str] = {}
    taken: set[Any] = set()
    for node in traced.graph.nodes:
        if type(_module(traced, node)) is torch.nn.Conv2d:
            try:
                layer = _layer(traced, node, taken)
            except InvalidInput as error:
                left[str(node.target)] = str(error)
            else:
                taken |= {*layer.nodes}
                layers.append(layer)
    return traced, layers, left


def _layer(traced: Any, node: Any, taken: set[Any]) -> _Layer:
    """The layer that begins with a convolution. Raises InvalidInput if kernels do not compute it."""
    conv = _module(traced, node)
    require(len(node.args) == 1 and not node.kwargs, f"it is called with {node.args} and {node.kwargs}")
    x = node.args[0].meta["tensor_meta"]
    require(len(x.shape) == 4, f"x has {len(x.shape)} dimensions: kernels take 4")
    require(x.dtype == conv.weight.dtype, f"x is of {x.dtype}, and the weight of {conv.weight.dtype}")
    behind, nodes, norm, added, relu = _Behind(traced, node, taken), [node], None, None, False
    user = behind.of(node)
    if _is_norm(traced, user):
        norm = _module(traced, user)
        nodes.append(user)
        user = behind.of(user)
    if _adds(user, nodes[-1]):
        added = user
        nodes.append(user)
        user = behind.of(user)
    if _is_relu(traced, user):
        relu = True
        nodes.append(user)
    fused = FusedConv2d(conv, norm, size=tuple(x.shape[2:]), adds=added is not None, relu=relu)
    if fused.filters is None:  # else images are copied
        told = f"x of {extent(x.shape)} has strides {tuple(x.stride)}"
        require(_is_channels_last(x), f"{told}: call the model with x.to(memory_format=torch.channels_last)")
    return _Layer(str(node.target), nodes, fused, fused.problem(x.shape[0]), added)


class _Behind:
    """Finds the nodes behind a layer that can become part of it. The layer begins with the node `first`."""

    def __init__(self, traced: Any, first: Any, taken: set[Any]) -> None:
        self._traced, self._taken = traced, taken
        self._order = {node: number for number, node in enumerate(traced.graph.nodes)}
        self._first, self._nodes = first, {first}

    def of(self, node: Any) -> Any:
        """The only user of a node; None if there are several, it is another layer's, or something in between writes a
        tensor, which may be what this layer reads."""
        self._nodes.add(node)
        user = next(iter(node.users)) if len(node.users) == 1 else None
        if user is None or user in self._taken:
            return None
        between = (
            one
            for one, number in self._order.items()
            if self._order[self._first] < number < self._order[user] and one not in self._nodes
        )
        return None if any(_writes(self._traced, one) for one in between) else user


def _module(traced: Any, node: Any) -> Any:
    """The module that a node calls; None if it calls none."""
    return traced.get_submodule(node.target) if node is not None and node.op == "call_module" else None


def _calls(node: Any, targets: Collection[Any]) -> bool:
    """Whether a node calls one of these functions or methods."""
    return node.op in ("call_function", "call_method") and node.target in targets


def _writes(traced: Any, node: Any) -> bool:
    """Whether a node may write a tensor that was there before it."""
    name = node.target if node.op == "call_method" else getattr(node.target, "__name__", "")
    named = node.op in ("call_function", "call_method") and (name.endswith("_") or name in _IN_PLACE)
    asked = bool(node.kwargs.get("inplace")) or node.kwargs.get("out") is not None
    return named or asked or bool(getattr(_module(traced, node), "inplace", False))


def _is_norm(traced: Any, node: Any) -> bool:
    module = _module(traced, node)
    if type(module) is not torch.nn.BatchNorm2d or len(node.args) != 1:
        return False
    return bool(module.running_mean is not None)  # else it takes those of x, in eval mode, too


def _is_relu(traced: Any, node: Any) -> bool:
    if node is None or len(node.args) != 1:
        return False
    return type(_module(traced, node)) is torch.nn.ReLU or _calls(node, _RELUS)


def _adds(node: Any, value: Any) -> bool:
    """Whether a node adds to `value` images of its shape and type, in channels_last."""
    if node is None or not _calls(node, _ADDS) or node.kwargs or len(node.args) != 2:
        return False
    others = [one for one in node.args if one is not value]
    if len(others) != 1 or not isinstance(others[0], torch.fx.Node):
        return False
    if node.target in (operator.iadd, "add_") and node.args[0] is not value:  # it writes the other one
        return False
    same, other = value.meta["tensor_meta"], others[0].meta.get("tensor_meta")
    alike = isinstance(other, type(same)) and (other.shape, other.dtype) == (same.shape, same.dtype)
    return alike and _is_channels_last(other)


def _is_channels_last(meta: Any) -> bool:
    return bool(meta.shape[1] == 1 or meta.stride[1] == 1)


def _replace(traced: Any, layer: _Layer) -> None:
    """Put the fused layer in place of its nodes."""
    first, last, graph = layer.nodes[0], layer.nodes[-1], traced.graph
    residual = [one for one in layer.sum.args if one not in layer.nodes] if layer.sum else []
    name, number = f"{layer.name}_fused", 1
    while name in {found for found, _ in traced.named_modules()}:
        name, number = f"{layer.name}_fused_{number}", number + 1
    traced.add_submodule(name, layer.fused)
    with graph.inserting_after(last):
        node = graph.call_module(name, (*first.args, *residual))
    node.meta = dict(last.meta)
    last.replace_all_uses_with(node)
    for one in reversed(layer.nodes):
        graph.erase_node(one)


def _is_last(traced: Any, node: Any) -> bool:
    """Whether a fused layer may write its residual: it is a tensor of its own that nobody reads later."""
    x, residual = node.args
    order = {one: number for number, one in enumerate(traced.graph.nodes)}
    own = all(isinstance(_module(traced, one), _NEW) for one in (residual, *residual.users))
    return own and residual is not x and all(order[user] <= order[node] for user in residual.users)
