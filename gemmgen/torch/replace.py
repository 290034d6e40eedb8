"""Replaces a model's torch.nn.Linear."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from gemmgen.checkpoints.weight import QuantisedWeight
from gemmgen.families import summation_of
from gemmgen.support.errors import require
from gemmgen.torch.block_scaled import BlockScaledLinear
from gemmgen.torch.linear import Linear
from gemmgen.torch.operator import Kernel
from gemmgen.torch.quantised import QuantisedLinear

KernelsFor = Callable[[Any], Sequence[Kernel]]


def replace_linear(
    model: Any,
    kernels_for: KernelsFor,
    *,
    weights: Mapping[str, QuantisedWeight] | None = None,
    invariant: bool = False,
) -> list[str]:
    """Replace each torch.nn.Linear in `model`, except `model` itself; return the names of those replaced.

    The kernels decide by what: plain inputs make a `Linear`, scales by group a `QuantisedLinear`, scales by block a
    `BlockScaledLinear`. Weights are rounded as these need it, unless `weights` has them.

    kernels_for  returns the kernels for a torch.nn.Linear, which layers of one shape can share. A layer without kernels
                 stays as it is
    weights      quantised weights by the names of layers, such as `gemmgen.checkpoints.open_checkpoint` reads. Only
                 these layers are replaced, and `kernels_for` gets the QuantisedWeight in place of the torch.nn.Linear
    invariant    require that a row of y depends on its row of x alone, neither on the number of rows nor on the others:
                 kernels of a library with `invariant = true` promise that. Layers without kernels are not checked

    Raises InvalidInput for kernels that do not fit, and for weights of modules that are no torch.nn.Linear of the same
    shape.
    """
    linears = {name: one for name, one in model.named_modules() if type(one) is torch.nn.Linear and name}
    modules = dict(model.named_modules()) if weights is not None else {}
    for name in weights or ():
        found = type(modules.get(name)).__name__
        require(name in linears, f"{name} is {found}, and a quantised weight is a Linear's")
    replaced = []
    for name in linears if weights is None else weights:
        linear, weight = linears[name], None if weights is None else weights[name]
        if weight is not None:
            shape = f"{linear.out_features} x {linear.in_features}"
            same = (linear.out_features, linear.in_features) == (weight.n, weight.k)
            require(same, f"{name} is {shape}: its quantised weight is {weight.n} x {weight.k}")
        kernels = kernels_for(linear if weight is None else weight)
        if kernels:
            if invariant:
                _require_invariant(name, kernels)
            parent, _, last = name.rpartition(".")
            setattr(model.get_submodule(parent), last, _layer(linear, weight, kernels))
            replaced.append(name)
    return replaced


def _layer(linear: Any, weight: QuantisedWeight | None, kernels: Sequence[Kernel]) -> torch.nn.Module:
    """Make the layer that takes the place of `linear`, with these kernels, and with this quantised weight if there is
    one."""
    problem, inputs = kernels[0].source.problem, kernels[0].source.problem.inputs
    if weight is None and inputs.coded:
        values, group = linear.weight.detach().float().cpu().numpy(), inputs.group or linear.in_features
        weight = QuantisedWeight.nearest(
            values, group, problem.types.a, symmetric=not inputs.zeros, bits=problem.code_bits
        )
    if weight is not None:
        return QuantisedLinear(weight, linear.bias, kernels)
    if inputs.blocks:
        return BlockScaledLinear(linear.weight, linear.bias, kernels)
    return Linear.of(linear, kernels)


def _require_invariant(name: str, kernels: Sequence[Kernel]) -> None:
    """Raise InvalidInput unless kernels, all of one class of summation, serve every number of rows."""
    require(
        any(kernel.source.problem.m is None for kernel in kernels),
        f"{name} cannot be invariant: no kernel takes any number of rows, so that torch computes some calls",
    )
    classes = {summation_of(source): source.name for kernel in kernels for source in kernel.sources}
    unknown = classes.get(None)
    require(unknown is None, f"{name} cannot be invariant: the order in which {unknown} sums is not known")
    told = "; ".join(f"{kernel}: {text}" for text, kernel in classes.items())
    require(len(classes) == 1, f"{name} cannot be invariant: the bits of its kernels differ ({told})")
