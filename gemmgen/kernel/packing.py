"""B's codes of 4 or 8 bits as kernels of wgmma take them, on the host: what a `Pack`'s launch writes, and its inverse.

A chunk has 64 columns of B by `depth` of K. Of 16 columns by 16 k, lane 4 g + t of a warp has columns g and g + 8 at
k = 2 t, 2 t + 1, 2 t + 8 and 2 t + 9: eight codes, in one word or in two. A line of scales follows the codes of a
chunk, and a line of zero points, if there are any: of numbers of A's type whose last bits are those of a code, where
these have room.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmgen.kernel.prepare import PACKED_COLUMNS, PACKED_LINE, Pack
from gemmgen.kernel.prepare import Codes as PackedCodes
from gemmgen.problem.dtype import WORD, DType
from gemmgen.problem.gemm import Case

Codes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint32]
Halves = npt.NDArray[np.uint16]

WARPS = 4  # of a warpgroup
# Places of eight codes, by their bits: by column g or g + 8, by half of k, by pair.
PLACES = {4: np.array([[[0, 4], [2, 6]], [[1, 5], [3, 7]]]), 8: np.array([[[0, 1], [4, 5]], [[2, 3], [6, 7]]])}


@dataclass(frozen=True)
class Scaled:
    """B as it is given; with groups of rows each array has a first axis for them.

    codes   N x K numbers of 4 or 8 bits, those with a sign as they lie in memory: -1 of s4 is 15
    scales  ceil(K / group) x N numbers of A's type, as bits
    zeros   ceil(K / group) x N numbers like codes; None: there are none
    """

    codes: Codes
    scales: Halves
    zeros: Codes | None = None


def packed(case: Case, given: Scaled) -> Words:
    """The words of all chunks, one after another along N first: those that a kernel's launch writes."""
    if not case.problem.inputs.row_groups:
        return _packed(case, given)
    zeros = [None] * len(given.codes) if given.zeros is None else given.zeros
    return np.concatenate([_packed(case, Scaled(*one)) for one in zip(given.codes, given.scales, zeros, strict=True)])


def _packed(case: Case, given: Scaled) -> Words:
    """The same of one B."""
    pack, problem, of = Pack("B"), case.problem, _codes(case)
    across, down = _chunks(case)
    flip = np.uint8(_sign(problem.types.b))
    codes = np.zeros((across * PACKED_COLUMNS, down * of.depth), np.uint8)
    codes[: case.n, : case.k] = given.codes ^ flip
    parts = codes.reshape(across, WARPS, 2, 8, down, of.depth // of.span, of.steps, 2, 4, 2)
    shifted = parts.astype(np.uint64) << _shifts(of)[:, None, None, None, None, :, None, :]
    made = shifted.sum((2, 7, 9), dtype=np.uint64).transpose(3, 0, 4, 1, 2, 6, 5)
    found = np.zeros((down, across, pack.chunk_lines(problem) * PACKED_LINE // WORD), np.uint32)
    end = pack.code_words(problem)
    eights = np.ascontiguousarray(made).reshape(down, across, -1)
    found[..., :end] = eights.view(np.uint32) if of.step_words == 2 else eights
    lines = found[..., end:].view(np.uint16).reshape(down, across, -1, PACKED_COLUMNS)
    groups = np.arange(down) * of.depth // problem.inputs.group if problem.inputs.group else np.zeros(down, int)
    lines[:, :, 0] = _by_chunk(given.scales[groups], across)
    if given.zeros is not None:
        lines[:, :, 1] = _by_chunk(given.zeros[groups] ^ flip, across) | of.beside_zero
    return found.reshape(-1)


def unpacked(case: Case, words: Words) -> Scaled:
    """What `packed` packed."""
    groups = case.problem.inputs.row_groups
    if not groups:
        return _unpacked(case, words)
    found = [_unpacked(case, of_group) for of_group in words.reshape(groups, -1)]
    zeros = [one.zeros for one in found if one.zeros is not None]
    codes, scales = (np.stack(of_all) for of_all in zip(*((one.codes, one.scales) for one in found), strict=True))
    return Scaled(codes, scales, np.stack(zeros) if zeros else None)


def _unpacked(case: Case, words: Words) -> Scaled:
    """The same of one B."""
    pack, problem, of = Pack("B"), case.problem, _codes(case)
    across, down = _chunks(case)
    flip, end = np.uint8(_sign(problem.types.b)), pack.code_words(problem)
    chunks, last = words.reshape(down, across, -1), 2**of.bits - 1
    held = np.ascontiguousarray(chunks[..., :end])
    eights = held.view(np.uint64) if of.step_words == 2 else held.astype(np.uint64)
    own = eights.reshape(down, across, of.depth // of.span, WARPS, 8, 4, of.steps)
    codes = (own[..., None, None, None] >> _shifts(of) & last).astype(np.uint8)  # column, half, pair
    codes = codes.transpose(1, 3, 7, 4, 0, 2, 6, 8, 5, 9).reshape(across * PACKED_COLUMNS, down * of.depth)
    lines = np.ascontiguousarray(chunks[..., end:]).view(np.uint16).reshape(down, across, -1, PACKED_COLUMNS)
    step = max(1, problem.inputs.group // of.depth) if problem.inputs.group else down  # chunks that share a scale
    of_group = lines[::step].transpose(2, 0, 1, 3).reshape(lines.shape[2], -1, across * PACKED_COLUMNS)[..., : case.n]
    zeros = (of_group[1] & last).astype(np.uint8) ^ flip if problem.inputs.zeros else None
    return Scaled(codes[: case.n, : case.k] ^ flip, of_group[0], zeros)


def scaled_of(case: Case, memory: Mapping[str, npt.NDArray[np.uint8]]) -> Scaled:
    """B and its companions, by name, from the bytes of their memory."""
    b, scales = case.b, case.extra["scales_b"]
    codes = np.ascontiguousarray(np.swapaxes(b.view(_codes_of(memory["B"], b.dtype)), -1, -2))
    zeros = case.extra["zeros_b"].view(_codes_of(memory["zeros_b"], b.dtype)) if case.problem.inputs.zeros else None
    return Scaled(codes, scales.view(memory["scales_b"].view(np.uint16)), zeros)


def stored_of(case: Case, given: Scaled) -> dict[str, npt.NDArray[Any]]:
    """B and its companions, by name, as flat arrays of elements."""

    def numbers(codes: Codes, dtype: DType) -> npt.NDArray[Any]:
        sign = _sign(dtype)
        return np.asarray(((codes ^ np.uint8(sign)).astype(np.int16) - sign).astype(dtype.numpy))

    flat = np.zeros(case.b.elements, case.b.dtype.numpy)
    case.b.view(flat)[...] = numbers(np.swapaxes(given.codes, -1, -2), case.b.dtype)
    found = {"B": flat, "scales_b": given.scales.reshape(-1).view(case.extra["scales_b"].dtype.numpy)}
    if given.zeros is not None:
        found["zeros_b"] = numbers(given.zeros.reshape(-1), case.extra["zeros_b"].dtype)
    return found


def _codes(case: Case) -> PackedCodes:
    found = PackedCodes.of(case.problem)
    assert found is not None, "what is packed has codes"
    return found


def _sign(dtype: DType) -> int:
    """The bit that codes with a sign have flipped where they are packed; 0 for others."""
    return 2 ** (dtype.storage_bits - 1) if dtype.is_signed else 0


def _shifts(of: PackedCodes) -> npt.NDArray[np.uint64]:
    """The bit at which each of eight codes begins in 32 or 64 bits, by its column, half and pair."""
    return (of.bits * PLACES[of.bits]).astype(np.uint64)


def _codes_of(held: npt.NDArray[np.uint8], dtype: DType) -> Codes:
    """The codes of bytes; of two in a byte that in the lower half first."""
    return held if dtype.storage_bits == 8 else np.stack((held & 15, held >> 4), axis=-1).reshape(-1)


def _chunks(case: Case) -> tuple[int, int]:
    """Chunks across N, and down K."""
    return -(-case.n // PACKED_COLUMNS), -(-case.k // Pack("B").depth(case.problem))


def _by_chunk(rows: npt.NDArray[np.unsignedinteger], across: int) -> Halves:
    """A row for each chunk's k, with zeros beyond N, as those of the chunks along N."""
    wide = np.zeros((len(rows), across * PACKED_COLUMNS), np.uint16)
    wide[:, : rows.shape[1]] = rows
    return wide.reshape(len(rows), across, PACKED_COLUMNS)
