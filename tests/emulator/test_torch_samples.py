"""PyTorch's own sample inputs of its matrix products, which kernels in the emulator compute as torch does."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gemmgen.arrays.kernel import ArrayKernel
from gemmgen.arrays.library import load_source
from gemmgen.families import NAIVE
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render
from gemmgen.support.files import Store

if importlib.util.find_spec("torch"):
    import torch

pytestmark = pytest.mark.usefixtures("torch", "expecttest")  # which torch's sample inputs import

TOLERANCE = {"float32": 1e-5, "float64": 1e-12, "bfloat16": 2e-2, "float16": 2e-3}


@pytest.fixture(scope="module")
def load(shared_store: Store) -> Iterator[Callable[[str, bool], ArrayKernel]]:
    """One kernel for matrices, and one for batches, of each type."""
    known: dict[tuple[str, bool], ArrayKernel] = {}

    def loaded(dtype: str, batched: bool) -> ArrayKernel:
        if (dtype, batched) not in known:
            kind, batch = getattr(torch, dtype), {"batch": None} if batched else {}
            problem = Problem(None, None, None, kind, pointer_align=kind.itemsize, **batch)
            source = render(problem, NAIVE, NAIVE.default(problem))
            known[dtype, batched] = load_source(source, "emulator", shared_store)
        return known[dtype, batched]

    yield loaded
    for kernel in known.values():
        kernel.close()


def product(kernel: ArrayKernel, a: Any, b: Any, c: Any = None, alpha: float = 1, beta: float = 0) -> Any:
    """alpha * a * b + beta * c, where c may be broadcast."""
    a, b = a.contiguous(), b.contiguous()
    if c is None:
        return kernel(a, b, alpha=alpha)
    out = c.expand(*a.shape[:-1], b.shape[-1]).clone(memory_format=torch.contiguous_format)
    return kernel(a, b, out, alpha=alpha, beta=beta)


def ours(name: str, load: Callable[[bool], ArrayKernel], sample: Any) -> Any:
    """What torch's operator `name` makes of the sample, by a kernel."""
    given, others, named = sample.input, sample.args, sample.kwargs
    if name in ("mm", "bmm"):
        return product(load(name == "bmm"), given, *others)
    if name in ("addmm", "baddbmm"):
        scalars = {"alpha": named.get("alpha", 1), "beta": named.get("beta", 1)}
        return product(load(name == "baddbmm"), *others, given, **scalars)
    weight, bias = (*others, *named.values(), None)[:2]
    found = product(load(False), given.reshape(-1, given.shape[-1]), weight.t(), bias, beta=0 if bias is None else 1)
    return found.reshape(*given.shape[:-1], len(weight))


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", ["mm", "addmm", "bmm", "baddbmm", "nn.functional.linear"])
def test_samples_of_torch_are_right(load, name: str, dtype: str) -> None:
    op_db = importlib.import_module("torch.testing._internal.common_methods_invocations").op_db
    found = next(one for one in op_db if one.name == name and not one.variant_test_name)
    samples = [*found.sample_inputs("cpu", getattr(torch, dtype))]
    if name == "nn.functional.linear":
        samples = [one for one in samples if one.args[0].dim() == 2]  # else the weight is a vector
    assert samples
    for sample in samples:
        wanted = found.op(sample.input, *sample.args, **sample.kwargs)
        computed = ours(name, lambda batched: load(dtype, batched), sample)
        torch.testing.assert_close(computed, wanted, rtol=TOLERANCE[dtype], atol=10 * TOLERANCE[dtype])
    if name in ("mm", "nn.functional.linear"):
        assert any(found.op(one.input, *one.args, **one.kwargs).numel() == 0 for one in samples)
