"""B's codes of 4 bits as kernels of wgmma take them, on the host: what the launch of a `Pack` writes, and its inverse.

A chunk has 64 columns of B by `depth` of K. Of 16 columns by 16 k, lane 4 g + t of a warp has columns g and g + 8 at
k = 2 t, 2 t + 1, 2 t + 8 and 2 t + 9: eight codes, one word. A line of scales follows the codes of a chunk, and a line
of zero points, if there are any, as numbers of A's type whose last bits are those of a code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmgen.kernel.prepare import MAGIC, PACKED_COLUMNS, PACKED_LINE, Pack
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Case

Codes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint32]
Halves = npt.NDArray[np.uint16]

WARPS, STEP = 4, 16  # of a warpgroup; k of an instruction
MOST_WORDS = 4  # that a thread loads at once
NIBBLES = np.array([[[0, 4], [2, 6]], [[1, 5], [3, 7]]])  # of a word: by column g or g + 8, by half of k, by pair
SIGN = 8  # of a code: a negative one plus 16, and the other way


@dataclass(frozen=True)
class Scaled:
    """B as it is given.

    codes   N x K numbers of 4 bits, those of s4 as they lie in memory: -1 is 15
    scales  ceil(K / group) x N numbers of A's type, as bits
    zeros   ceil(K / group) x N numbers like codes; None: there are none
    """

    codes: Codes
    scales: Halves
    zeros: Codes | None = None


def packed(case: Case, given: Scaled) -> Words:
    """The words of all chunks, one after another along N first: those that a kernel's launch writes."""
    pack, problem = Pack("B"), case.problem
    depth, across, down = pack.depth(problem), *_chunks(case)
    flip = SIGN * problem.types.b.is_signed
    codes = np.zeros((across * PACKED_COLUMNS, down * depth), np.uint8)
    codes[: case.n, : case.k] = given.codes ^ flip
    words = min(MOST_WORDS, depth // STEP)
    parts = codes.reshape(across, WARPS, 2, 8, down, depth // STEP // words, words, 2, 4, 2)
    shifted = parts.astype(np.uint32) << (4 * NIBBLES).astype(np.uint32)[:, None, None, None, None, :, None, :]
    found = np.zeros((down, across, pack.chunk_lines(problem) * PACKED_LINE // 4), np.uint32)
    made = shifted.sum((2, 7, 9), dtype=np.uint32).transpose(3, 0, 4, 1, 2, 6, 5)
    end = PACKED_COLUMNS * depth // 8
    found[..., :end] = made.reshape(down, across, end)
    lines = found[..., end:].view(np.uint16).reshape(down, across, -1, PACKED_COLUMNS)
    groups = np.arange(down) * depth // problem.inputs.group if problem.inputs.group else np.zeros(down, int)
    lines[:, :, 0] = _by_chunk(given.scales[groups], across)
    if given.zeros is not None:
        lines[:, :, 1] = _by_chunk(given.zeros[groups] ^ flip, across) | MAGIC[problem.types.a]
    return found.reshape(-1)


def unpacked(case: Case, words: Words) -> Scaled:
    """What `packed` packed."""
    pack, problem = Pack("B"), case.problem
    depth, across, down = pack.depth(problem), *_chunks(case)
    flip, end = SIGN * problem.types.b.is_signed, PACKED_COLUMNS * depth // 8
    chunks, at_once = words.reshape(down, across, -1), min(MOST_WORDS, depth // STEP)
    own = chunks[..., :end].reshape(down, across, depth // STEP // at_once, WARPS, 8, 4, at_once)
    shifts = (4 * NIBBLES).astype(np.uint32)  # column, half, pair
    codes = (own[..., None, None, None] >> shifts & 15).astype(np.uint8)
    codes = codes.transpose(1, 3, 7, 4, 0, 2, 6, 8, 5, 9).reshape(across * PACKED_COLUMNS, down * depth)
    lines = np.ascontiguousarray(chunks[..., end:]).view(np.uint16).reshape(down, across, -1, PACKED_COLUMNS)
    step = max(1, problem.inputs.group // depth) if problem.inputs.group else down  # chunks that share a scale
    of_group = lines[::step].transpose(2, 0, 1, 3).reshape(lines.shape[2], -1, across * PACKED_COLUMNS)[..., : case.n]
    zeros = (of_group[1] & 15).astype(np.uint8) ^ flip if problem.inputs.zeros else None
    return Scaled(codes[: case.n, : case.k] ^ flip, of_group[0], zeros)


def scaled_of(case: Case, memory: Mapping[str, npt.NDArray[np.uint8]]) -> Scaled:
    """B and its companions, by name, from the bytes of their memory."""
    b, inputs = case.b, case.problem.inputs
    lines = _halves(memory["B"]).reshape(-1)[: b.lines * b.ld].reshape(b.lines, b.ld)[:, : b.line_length]
    scales = memory["scales_b"].view(np.uint16).reshape(-1, case.n)
    zeros = _halves(memory["zeros_b"])[: scales.size].reshape(scales.shape) if inputs.zeros else None
    return Scaled(lines if b.order == "c" else np.ascontiguousarray(lines.T), scales, zeros)


def stored_of(case: Case, given: Scaled) -> dict[str, npt.NDArray[Any]]:
    """B and its companions, by name, as flat arrays of elements."""

    def numbers(codes: Codes, dtype: DType) -> npt.NDArray[Any]:
        signed = (codes ^ SIGN).astype(np.int8) - SIGN if dtype.is_signed else codes
        return np.asarray(signed.astype(dtype.numpy))

    flat = np.zeros(case.b.elements, case.b.dtype.numpy)
    case.b.view(flat)[...] = numbers(given.codes.T, case.b.dtype)
    found = {"B": flat, "scales_b": given.scales.reshape(-1).view(case.extra["scales_b"].dtype.numpy)}
    if given.zeros is not None:
        found["zeros_b"] = numbers(given.zeros.reshape(-1), case.extra["zeros_b"].dtype)
    return found


def _halves(held: npt.NDArray[np.uint8]) -> Codes:
    """The codes of bytes, the lower half first."""
    return np.stack((held & 15, held >> 4), axis=-1).reshape(-1)


def _chunks(case: Case) -> tuple[int, int]:
    """Chunks across N, and down K."""
    return -(-case.n // PACKED_COLUMNS), -(-case.k // Pack("B").depth(case.problem))


def _by_chunk(rows: npt.NDArray[np.unsignedinteger], across: int) -> Halves:
    """A row for each chunk's k, with zeros beyond N, as those of the chunks along N."""
    wide = np.zeros((len(rows), across * PACKED_COLUMNS), np.uint16)
    wide[:, : rows.shape[1]] = rows
    return wide.reshape(len(rows), across, PACKED_COLUMNS)
