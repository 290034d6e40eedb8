"""What is packed of B's codes on the host, and its inverse."""

from __future__ import annotations

import numpy as np
import pytest

from gemmgen.kernel.packing import Scaled, packed, unpacked
from gemmgen.kernel.prepare import Pack
from gemmgen.problem.gemm import Problem

CASES = (
    ("bf16,u4,bf16", "scales=128+zeros", 128, 256),
    ("f16,s4,f16", "scales=32+zeros", 72, 208),
    ("bf16,u4,f32", "scales=64", 8, 400),
    ("f16,u4,f16", "scales=K+zeros", 136, 272),
    ("bf16,u8,bf16", "scales=128+zeros", 72, 208),
    ("f16,s8,f16", "scales=32+zeros", 136, 400),
    ("bf16,s8,f32", "scales=K", 64, 16),
    ("bf16,u4,bf16", "scales=64+zeros+groups=3", 72, 208),
    ("f16,s8,f16", "scales=K+groups=2", 40, 48),
)


def drawn(case, seed: int = 0) -> Scaled:
    rng, group = np.random.default_rng(seed), case.problem.inputs.group or case.k
    lead = (case.b.batch,) if case.b.batch else ()
    groups, codes_of_type = (*lead, -(-case.k // group), case.n), 2**case.problem.code_bits
    codes = rng.integers(0, codes_of_type, (*lead, case.n, case.k)).astype(np.uint8)
    scales = rng.integers(0, 2**16, groups).astype(np.uint16)
    zeros = rng.integers(0, codes_of_type, groups).astype(np.uint8) if case.problem.inputs.zeros else None
    return Scaled(codes, scales, zeros)


@pytest.mark.parametrize(("types", "inputs", "n", "k"), CASES, ids=str)
def test_what_was_packed_is_found_again(types: str, inputs: str, n: int, k: int) -> None:
    case = Problem(None, n, k, types=types, layout="rc", inputs=inputs).case(m=1)
    given = drawn(case)
    words = packed(case, given)
    assert words.nbytes == Pack("B").bytes(case)
    found = unpacked(case, words)
    np.testing.assert_array_equal(found.codes, given.codes)
    np.testing.assert_array_equal(found.scales, given.scales)
    assert (found.zeros is None) == (given.zeros is None)
    if given.zeros is not None:
        np.testing.assert_array_equal(found.zeros, given.zeros)


def test_a_word_has_the_codes_of_a_lane_s_fragment() -> None:
    """Register r of an instruction takes nibbles r and r + 4: of columns g, g + 8, and of k 2 t and 2 t + 8 on."""
    case = Problem(None, 64, 64, types="bf16,u4,bf16", layout="rc", inputs="scales=64").case(m=1)
    codes = np.random.default_rng(1).integers(0, 16, (64, 64)).astype(np.uint8)
    words = packed(case, Scaled(codes, np.zeros((1, 64), np.uint16)))
    warp, g, t, step = 2, 5, 3, 1
    word = int(words[(warp * 32 + 4 * g + t) * 4 + step])
    for r, (column, k) in enumerate([(0, 0), (8, 0), (0, 8), (8, 8)]):
        n, first = warp * 16 + g + column, step * 16 + 2 * t + k
        assert word >> 4 * r & 0x000F000F == int(codes[n, first]) | int(codes[n, first + 1]) << 16


def test_two_words_have_the_bytes_of_a_lane_s_fragment() -> None:
    """Register r of an instruction takes bytes 2 r and 2 r + 1."""
    case = Problem(None, 64, 64, types="bf16,s8,bf16", layout="rc", inputs="scales=64").case(m=1)
    codes = np.random.default_rng(1).integers(0, 256, (64, 64)).astype(np.uint8)
    words = packed(case, Scaled(codes, np.zeros((1, 64), np.uint16)))
    warp, g, t, step = 2, 5, 3, 3
    own = words[step // 2 * 512 + (warp * 32 + 4 * g + t) * 4 + step % 2 * 2 :][:2].view(np.uint8)
    for r, (column, k) in enumerate([(0, 0), (8, 0), (0, 8), (8, 8)]):
        n, first = warp * 16 + g + column, step * 16 + 2 * t + k
        np.testing.assert_array_equal(own[2 * r : 2 * r + 2], codes[n, first : first + 2] ^ 128)
