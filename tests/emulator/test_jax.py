"""gemmgen.jax on the host, where the emulator multiplies what XLA hands over."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from gemmgen.arrays.kernel import ArrayKernel
from gemmgen.arrays.library import load_source
from gemmgen.families import NAIVE
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render
from gemmgen.support.errors import InvalidInput
from gemmgen.support.files import Store


@pytest.fixture(scope="module")
def gemm(jax: Any) -> Any:
    return importlib.import_module("gemmgen.jax").gemm


@pytest.fixture(scope="module")
def draw(jax: Any) -> Callable[..., Any]:
    return lambda *shape: jax.random.normal(jax.random.key(sum(shape)), shape)


@pytest.fixture(scope="module")
def load(shared_store: Store) -> Iterator[Callable[..., ArrayKernel]]:
    known: list[ArrayKernel] = []

    def loaded(layout: str = "rr", **fields: Any) -> ArrayKernel:
        problem = Problem(None, None, None, layout=layout, **{"pointer_align": 4, **fields})
        known.append(load_source(render(problem, NAIVE, NAIVE.default(problem)), "emulator", shared_store))
        return known[-1]

    yield loaded
    for kernel in known:
        kernel.close()


def close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("layout", ["rr", "rc"])
def test_a_compiled_function_has_the_product_in_it(jax, gemm, draw, load, layout: str) -> None:
    kernel, a, b = load(layout), draw(5, 9), draw(9, 7)
    close(jax.jit(lambda a, b: 1 + gemm(kernel, 2 * a, b, alpha=0.5))(a, b), 1 + a @ b)


def test_operands_of_an_epilogue_are_arguments(jax, gemm, draw, load) -> None:
    kernel, a, b, bias = load(epilogue="bias"), draw(5, 9), draw(9, 7), draw(7)
    close(jax.jit(lambda *given: gemm(kernel, *given[:2], bias_n=given[2]))(a, b, bias), a @ b + bias)
    with pytest.raises(InvalidInput, match="reads bias_n: give bias_n="):
        gemm(kernel, a, b)
    with pytest.raises(InvalidInput, match="no argument is called alfa: known are alpha, bias_n, of the epilogue"):
        gemm(kernel, a, b, alfa=2, bias_n=bias)
    with pytest.raises(InvalidInput, match=r"alpha = 1e\+39 overflows f32"):
        gemm(kernel, a, b, alpha=1e39, bias_n=bias)


def test_an_empty_product_is_an_empty_array(jax, gemm, draw, load) -> None:
    plain, batches = load(), load(batch=None, stride_b=None)
    for m, n in ((0, 7), (5, 0)):
        assert jax.jit(lambda a, b: gemm(plain, a, b))(draw(m, 9), draw(9, n)).shape == (m, n)
    close(gemm(plain, draw(5, 0), draw(0, 7)), np.zeros((5, 7)))
    assert jax.vmap(lambda a, b: gemm(batches, a, b, alpha=3.0))(draw(0, 5, 9), draw(0, 9, 7)).shape == (0, 5, 7)
    assert jax.vmap(lambda a, b: gemm(batches, a, b, alpha=3.0))(draw(2, 0, 9), draw(2, 9, 7)).shape == (2, 0, 7)


def test_mapped_products_are_launches_of_a_plain_kernel(jax, gemm, draw, load) -> None:
    kernel, a, b = load("rc"), draw(3, 5, 9), draw(9, 7)
    close(jax.jit(jax.vmap(lambda a, b: gemm(kernel, a, b), (0, None)))(a, b), a @ b)


def test_mapped_products_are_one_launch_of_a_kernel_for_batches(
    jax, gemm, draw, load, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, a, b = load(batch=None, stride_b=None), draw(3, 5, 9), draw(3, 9, 7)
    runs: list[Any] = []
    run = kernel._backend.run
    monkeypatch.setattr(kernel._backend, "run", lambda *given: runs.append(given) or run(*given))
    close(jax.jit(jax.vmap(lambda a, b: gemm(kernel, a, b)))(a, b), a @ b)
    close(jax.jit(jax.vmap(lambda a, b: gemm(kernel, a, b), (0, None)))(a, b[0]), a @ b[0])
    assert len(runs) == 2


def test_what_does_not_fit_is_xlas_error(jax, gemm, draw, load) -> None:
    kernel = load(types="bf16", pointer_align=2)
    with pytest.raises(jax.errors.JaxRuntimeError, match="A is of f32: this kernel"):
        jax.block_until_ready(gemm(kernel, draw(5, 9), draw(9, 7)))
