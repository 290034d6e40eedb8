"""Kernels of convolutions on arrays of the host: images and filters of four dimensions, or as matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from gemmgen.arrays.kernel import ArrayKernel
from gemmgen.arrays.library import load_source
from gemmgen.families import NAIVE, WGMMA
from gemmgen.problem.convolution import Convolution
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render
from gemmgen.support.errors import InvalidInput
from gemmgen.support.files import Store

Array = np.ndarray[Any, Any]
CONV = Convolution.parse("5x7x3_3x2_p1x0_s2x1_d1x2")
H, W, C = CONV.size
R, S = CONV.taps
P, Q = CONV.places
N, COUNT = 6, 2  # filters, images
PROBLEM = Problem(None, N, CONV.depth, layout="rc", pointer_align=4, inputs=f"im2col={CONV}")


@pytest.fixture(scope="module")
def loaded(shared_store: Store) -> Iterator[Callable[[Problem], ArrayKernel]]:
    """A kernel of the family naive, one for each problem."""
    known: dict[Problem, ArrayKernel] = {}

    def load(problem: Problem) -> ArrayKernel:
        if problem not in known:
            known[problem] = load_source(render(problem, NAIVE, NAIVE.default(problem)), "emulator", shared_store)
        return known[problem]

    yield load
    for kernel in known.values():
        kernel.close()


def whole(*shape: int) -> Array:
    """Small integers, whose products are exact."""
    return np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype(np.float32)


def convolved(images: Array, filters: Array, conv: Convolution = CONV) -> Array:
    """By loops over taps, of NHWC images with KRSC filters."""
    top, left, bottom, right = conv.pad
    padded = np.pad(images, ((0, 0), (top, bottom), (left, right), (0, 0)))
    (rows, columns), (down, across) = conv.places, conv.stride
    found = np.zeros((len(images), rows, columns, len(filters)), np.float32)
    for r in range(conv.taps[0]):
        for s in range(conv.taps[1]):
            y, x = r * conv.dilation[0], s * conv.dilation[1]
            seen = padded[:, y : y + (rows - 1) * down + 1 : down, x : x + (columns - 1) * across + 1 : across]
            found += seen @ filters[:, r, s].T
    return found


def test_images_and_filters_have_four_dimensions_or_are_matrices(loaded) -> None:
    kernel, filters = loaded(PROBLEM), whole(N, R, S, C)
    b = filters.reshape(N, -1).T
    for count in (COUNT, 1, 3):
        images = whole(count, H, W, C)
        wanted = convolved(images, filters)
        for a, shape in ((images, wanted.shape), (images.reshape(-1, C), (count * P * Q, N))):
            for weight in (filters, b):
                np.testing.assert_array_equal(kernel(a, weight), wanted.reshape(shape), strict=True)
                for out in (np.zeros_like(wanted), np.zeros((count * P * Q, N), np.float32)):
                    assert kernel(a, weight, out) is out
                    np.testing.assert_array_equal(out.reshape(wanted.shape), wanted)
        plan = kernel.plan(images, filters)
        images[:] = -images
        np.testing.assert_array_equal(plan(), -wanted)


def test_operands_may_lie_in_larger_arrays(loaded) -> None:
    kernel = loaded(replace(PROBLEM, lda=None, ldb=None, ldc=None))
    images, filters = whole(COUNT, H, W, C + 4)[..., 2:-2], whole(2 * N, R, S, C)[::2]
    out = np.zeros((COUNT, P, Q, N + 3), np.float32)
    kernel(images, filters, out[..., 1:-2])
    np.testing.assert_array_equal(out[..., 1:-2], convolved(images, filters))
    assert not out[..., 0].any() and not out[..., -2:].any()


def test_an_epilogue_reads_what_lies_as_its_result(loaded) -> None:
    kernel = loaded(replace(PROBLEM, epilogue="relu(acc + bias_n + residual)"))
    images, filters, bias, residual = whole(COUNT, H, W, C), whole(N, R, S, C), whole(N), whole(COUNT, P, Q, N)
    wanted = np.maximum(convolved(images, filters) + bias + residual, 0)
    for one in (residual, residual.reshape(-1, N)):
        np.testing.assert_array_equal(kernel(images, filters, bias_n=bias, residual=one), wanted)


def test_m_may_be_fixed_within_the_last_image(loaded) -> None:
    images, filters = whole(COUNT, H, W, C), whole(N, R, S, C)
    wanted = convolved(images, filters)
    np.testing.assert_array_equal(loaded(replace(PROBLEM, m=COUNT * P * Q))(images, filters), wanted, strict=True)
    part = loaded(replace(PROBLEM, m=P * Q + 1))
    np.testing.assert_array_equal(part(images, filters), wanted.reshape(-1, N)[: P * Q + 1], strict=True)
    with pytest.raises(InvalidInput, match=r"A is 35 x 3, .*of 5 x 7: this kernel, built for M = 16, takes 70 rows"):
        part(images[:1], filters)
    with pytest.raises(InvalidInput, match=r"C is 30 x 6 \(M x N\): this kernel is built for M = 16"):
        part(images, filters, wanted)


def test_no_image_is_an_empty_array(loaded) -> None:
    kernel, filters = loaded(PROBLEM), whole(N, R, S, C)
    assert kernel(whole(0, H, W, C), filters).shape == (0, P, Q, N)
    assert kernel(whole(0, C), filters).shape == (0, N)


@pytest.mark.parametrize(
    ("types", "layout", "kind", "of_c"),
    [("bf16", "rc", ml_dtypes.bfloat16, ml_dtypes.bfloat16), ("s8,s8,s32", "rr", np.int8, np.int32)],
)
def test_tensor_cores_convolve(shared_store: Store, types: str, layout: str, kind: Any, of_c: Any) -> None:
    conv = Convolution.parse("5x6x16_3x3_p1x1_s2x1")
    problem = Problem(None, 64, conv.depth, types=types, layout=layout, inputs=f"im2col={conv}")
    config = WGMMA.default(problem).with_values(BM=64, BN=64, CONSUMERS=1)
    filters = whole(64, 3, 3, 16)
    with load_source(render(problem, WGMMA, config, "sm_90a"), "emulator", shared_store) as kernel:
        given: list[Any] = [filters.astype(kind)]
        if layout == "rr":  # the kernel copies B, unless that was done before
            given = [np.ascontiguousarray(given[0].reshape(64, -1).T)]
            given.append(kernel.prepare_b(given[0]))
        for count in (1, 3):
            images = whole(count, 5, 6, 16)
            wanted = convolved(images, filters, conv).astype(of_c)
            for b in given:
                np.testing.assert_array_equal(kernel(images.astype(kind), b), wanted, strict=True)


GRADIENT = Problem(None, CONV.depth, None, layout="cr", pointer_align=4, inputs=f"im2col={CONV}+wgrad")


def gradient(dy: Array, images: Array, conv: Convolution = CONV) -> Array:
    """That of filters, KRSC: each of its elements is a convolution with a filter of one 1."""
    ones = np.eye(conv.depth, dtype=np.float32).reshape(-1, *conv.taps, conv.size[2])
    seen = convolved(images, ones, conv).reshape(-1, conv.depth)
    return (dy.reshape(-1, dy.shape[-1]).T @ seen).reshape(-1, *conv.taps, conv.size[2])


def test_gradients_of_filters_have_four_dimensions_or_are_matrices(loaded) -> None:
    kernel = loaded(GRADIENT)
    for count in (COUNT, 1):
        dy, images = whole(count, P, Q, N), whole(count, H, W, C)
        wanted = gradient(dy, images)
        for a in (dy, dy.reshape(-1, N).T):
            for b in (images, images.reshape(-1, C)):
                np.testing.assert_array_equal(kernel(a, b), wanted.reshape(N, -1), strict=True)
        for out in (np.zeros_like(wanted), np.zeros((N, CONV.depth), np.float32)):
            assert kernel(dy, images, out) is out
            np.testing.assert_array_equal(out.reshape(wanted.shape), wanted)
    assert not kernel(whole(0, P, Q, N), whole(0, H, W, C)).any()
    assert kernel(whole(COUNT, P, Q, 0), whole(COUNT, H, W, C)).shape == (0, CONV.depth)
    fixed = loaded(replace(GRADIENT, k=COUNT * P * Q))
    np.testing.assert_array_equal(fixed(whole(COUNT, P, Q, N), whole(COUNT, H, W, C)).shape, (N, CONV.depth))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            {"b": whole(3, H, W, C)},
            f"B has images with {3 * P * Q} places of a filter in all, and A has K = {COUNT * P * Q}",
        ),
        ({"a": whole(COUNT, Q, P, N)}, f"A is .*: this kernel takes it as images x {P} x {Q} x 6"),
        ({"b": whole(50, C)}, "B is 50 x 3: its rows are pixels, 35 for each image of 5 x 7"),
        ({"out": whole(N, S, R, C)}, "C is 6 x 2 x 3 x 3: this kernel takes it as M x 3 x 2 x 3"),
    ],
)
def test_gradients_that_do_not_fit_are_said_with_both_values(loaded, call: dict[str, Array], message: str) -> None:
    given = {"a": whole(COUNT, P, Q, N), "b": whole(COUNT, H, W, C), **call}
    with pytest.raises(InvalidInput, match=message):
        loaded(GRADIENT)(**given)


def test_tensor_cores_compute_gradients_of_filters(shared_store: Store) -> None:
    conv = Convolution.parse("5x6x16_3x3_p1x1_s2x1")
    problem = Problem(64, conv.depth, None, types="bf16,bf16,f32", layout="cr", inputs=f"im2col={conv}+wgrad")
    config = WGMMA.default(problem).with_values(BM=64, BN=48, CONSUMERS=1)
    with load_source(render(problem, WGMMA, config, "sm_90a"), "emulator", shared_store) as kernel:
        for count in (1, 3):
            dy, images = whole(count, *conv.places, 64), whole(count, 5, 6, 16)
            found = kernel(dy.astype(ml_dtypes.bfloat16), images.astype(ml_dtypes.bfloat16))
            np.testing.assert_array_equal(found, gradient(dy, images, conv).reshape(64, -1), strict=True)


WRONG: dict[str, tuple[Callable[[], dict[str, Any]], str]] = {
    "NCHW images": (lambda: {"a": whole(COUNT, C, H, W)}, "A is 2 x 3 x 5 x 7: .* takes it as images x 5 x 7 x 3"),
    "NCHW images as NHWC": (
        lambda: {"a": whole(COUNT, C, H, W).transpose(0, 2, 3, 1)},
        r"A of 2 x 5 x 7 x 3 has strides \(105, 7, 1, 35\): its pixels have to .*NHWC|this kernel reads it row-major",
    ),
    "pixels apart": (lambda: {"a": whole(COUNT, H, W + 1, C)[:, :, 1:]}, r"strides \(120, 24, 3, 1\): its pixels have"),
    "half an image": (lambda: {"a": whole(50, C)}, "A is 50 x 3: its rows are pixels, 35 for each image of 5 x 7"),
    "one image": (lambda: {"a": whole(H, W, C)}, "A is 5 x 7 x 3: this kernel takes images x 5 x 7 x 3, or all pixels"),
    "places": (lambda: {"a": whole(P * Q, CONV.depth)}, "A is .* x 18: this kernel takes images x 5 x 7 x 3, or all"),
    "NCRS filters": (lambda: {"b": whole(N, C, R, S)}, "B is 6 x 3 x 3 x 2: this kernel takes it as N x 3 x 2 x 3"),
    "NCRS filters as KRSC": (
        lambda: {"b": whole(N, C, R, S).transpose(0, 2, 3, 1)},
        r"B of 6 x 3 x 2 x 3 has strides .*: elements of a filter have to follow each other",
    ),
    "filters as rows": (
        lambda: {"b": whole(N, CONV.depth)},
        "have K = 18. Pass its transpose|built for K = 18. Pass its",
    ),
    "seven filters": (lambda: {"b": whole(7, R, S, C)}, r"B is 18 x 7 \(K x N\): this kernel is built for N = 6"),
    "more images": (
        lambda: {"out": whole(3, P, Q, N)},
        "C is 3 x .* x 6, and A 2 x 5 x 7 x 3: they have as many images",
    ),
    "images of C": (lambda: {"out": whole(COUNT, Q, P, N)}, f"C is .*: this kernel takes it as images x {P} x {Q} x 6"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_said_with_both_values(loaded, name: str) -> None:
    made, message = WRONG[name]
    call = {"a": whole(COUNT, H, W, C), "b": whole(N, R, S, C), **made()}
    with pytest.raises(InvalidInput, match=message):
        loaded(PROBLEM)(**call)


def test_filters_in_rows_of_b_are_a_matrix(loaded) -> None:
    kernel = loaded(replace(PROBLEM, layout="rr"))
    images, filters = whole(COUNT, H, W, C), whole(N, R, S, C)
    b = np.ascontiguousarray(filters.reshape(N, -1).T)
    np.testing.assert_array_equal(kernel(images, b), convolved(images, filters))
    with pytest.raises(InvalidInput, match=r"B is 6 x 3 x 2 x 3, filter by filter: layout rc reads it, .* has rr"):
        kernel(images, filters)
