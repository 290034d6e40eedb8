from __future__ import annotations

import threading

import numpy as np
import pytest

from gemmgen.support.blas import ONE_THREAD, SMALL_FLOPS, multiply, openblas

pytestmark = pytest.mark.skipif(openblas() is None, reason="numpy has another BLAS than OpenBLAS")


def threads_of_blas() -> int:
    calls = openblas()
    assert calls is not None
    return calls[0]()


def test_a_product_is_numpys_be_it_small_or_large() -> None:
    rng = np.random.default_rng(0)
    for size in (0, 1, 64, 400):
        a, b = (rng.integers(-8, 8, (2, size, size)).astype(np.float64) for _ in "ab")
        assert np.array_equal(multiply(a, b), a @ b)
    assert 2 * 64**3 < SMALL_FLOPS < 2 * 400**3


def test_blas_has_its_threads_back_after_products_of_several_python_threads() -> None:
    before, inside = threads_of_blas(), []
    both = threading.Barrier(2)

    def hold() -> None:
        with ONE_THREAD():
            both.wait()
            inside.append(threads_of_blas())
            both.wait()

    with ONE_THREAD():
        inside.append(threads_of_blas())
    running = [threading.Thread(target=hold) for _ in range(2)]
    for one in running:
        one.start()
    for one in running:
        one.join()
    assert inside == [1, 1, 1]
    assert threads_of_blas() == before


def test_blas_has_its_threads_back_after_a_product_that_fails() -> None:
    before = threads_of_blas()
    with pytest.raises(ValueError, match="matmul"):
        multiply(np.ones((2, 3)), np.ones((2, 3)))
    assert threads_of_blas() == before
