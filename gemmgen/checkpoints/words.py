"""Codes in 32-bit words, and the checks that formats share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmgen.checkpoints.weight import Codes, shape_text
from gemmgen.problem.dtype import DType
from gemmgen.support.errors import InvalidInput, require

WORD_BITS = 32


def array_of(tensors: Mapping[str, Any], name: str, ndim: int = 2) -> npt.NDArray[Any]:
    """Tensor `name` as a numpy array. Raises InvalidInput if it is missing, not on the CPU, or not of `ndim`
    dimensions."""
    require(name in tensors, f"no tensor {name}: the layer has {', '.join(sorted(tensors)) or 'none'}")
    given = tensors[name]
    if str(getattr(given, "dtype", "")) == "torch.bfloat16":
        array = array_of({name: given.float()}, name, ndim)  # numpy refuses torch's bf16; f32 holds all its numbers
        return array.astype(DType.BF16.numpy)
    try:
        array = np.asarray(given)
    except (RuntimeError, TypeError, ValueError) as error:
        raise InvalidInput(f"{name} is no array on the CPU: {error}") from error
    require(array.ndim == ndim, f"{name} is {shape_text(array.shape)}: {ndim} dimensions are needed")
    return array


def words_of(tensors: Mapping[str, Any], name: str) -> npt.NDArray[np.uint32]:
    """Tensor `name` as words. Raises InvalidInput unless its elements are int32 or uint32."""
    array = array_of(tensors, name)
    require(array.dtype in (np.int32, np.uint32), f"{name} of {array.dtype}: words of int32 are needed")
    return np.ascontiguousarray(array).view(np.uint32)


def codes_of(words: npt.NDArray[np.uint32], bits: int) -> Codes:
    """The codes in each row of `words`, the lowest bits of a word first: 32 / bits to a word."""
    bytes_ = np.ascontiguousarray(words).astype("<u4", copy=False).view(np.uint8)
    return bytes_ if bits == 8 else halves_of(bytes_)


def halves_of(bytes_: Codes) -> Codes:
    """The 4-bit codes in each row of bytes, the low half first."""
    return np.stack((bytes_ & 0xF, bytes_ >> 4), axis=-1).reshape(len(bytes_), -1)


def require_shape(name: str, array: npt.NDArray[Any], wanted: tuple[int, ...], why: str) -> None:
    """Raise InvalidInput unless `array` has the shape that `why` needs: "qweight of 8 x 64"."""
    found = shape_text(array.shape)
    require(array.shape == wanted, f"{name} is {found}: {why} needs {shape_text(wanted)}")


def require_bits(form: str, bits: int, known: tuple[int, ...] = (4, 8)) -> None:
    labels = " or ".join(map(str, known))
    require(bits in known, f"{form} of {bits} bits: codes of {labels} bits are read")


def require_in_order(name: str, g_idx: npt.NDArray[Any], k: int, group: int) -> None:
    """Raise InvalidInput unless element k belongs to group k // group, as it does without act-order."""
    require_shape(name, g_idx, (k,), f"K = {k}")
    expected = np.arange(k) // group
    wrong = np.flatnonzero(g_idx != expected)
    if wrong.size:
        at = int(wrong[0])
        raise InvalidInput(
            f"{name}[{at}] = {g_idx[at]}, and {at} // {group} = {expected[at]}: the layer is in act-order (desc_act), "
            f"where neighbours along K have different scales. Quantise it with desc_act = false, or sort {name} "
            "(stably) and permute the columns of W and of A alike"
        )


def zeros_of(zeros: Codes, bits: int, symmetric: bool | None, hint: str) -> Codes | None:
    """`zeros`, or None for a symmetric scheme, in which all are the middle code; if `symmetric` is None, they decide.

    Raises InvalidInput with the `hint` if a symmetric scheme has others.
    """
    middle = 2 ** (bits - 1)
    all_middle = bool((zeros == middle).all())
    if symmetric is None:
        return None if all_middle else zeros
    least, most = zeros.min(), zeros.max()
    wrong = f"zero points are {least} to {most}, and those of a symmetric scheme {middle}: {hint}"
    require(all_middle or not symmetric, wrong)
    return None if symmetric else zeros
