"""The model of tensor cores' arithmetic: against cases worked out by hand, and against what cards computed."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from gemmgen.lab.prints.arithmetic import show_arithmetic
from gemmgen.problem.device import ARCHS
from gemmgen.problem.mma import MMAS, Mma
from gemmgen.support.errors import GemmgenError, InvalidInput
from gemmgen.verification.tensor_core import dot
from gemmgen.verification.tensor_core_recordings import FOLDER, Recording, compare, left_out, vectors_of
from gemmgen.verification.vectors import Vectors, random_vectors

BF16, F16, TF32 = MMAS["mma_m16n8k16_bf16"], MMAS["mma_m16n8k16_f16"], MMAS["mma_m16n8k8_tf32"]
HALVES, E4M3, F64 = MMAS["mma_m16n8k16_f16_f16"], MMAS["mma_m16n8k32_e4m3"], MMAS["mma_m8n8k4_f64"]
RECORDED = sorted(FOLDER.glob("*.npz"))  # sm_90_h100.npz
FIRST = {path.stem.rpartition("_")[0]: path for path in reversed(RECORDED)}.values()  # one per architecture


def d_of(mma: Mma, arch: str, a: list[float], b: list[float], c: float) -> float:
    """c + the products of a and b, zeros after them."""
    size = -(-len(a) // mma.k) * mma.k
    dtype = mma.accumulator
    codes = [mma.a.encode([*values, *[0.0] * (size - len(values))]).view(mma.a.bits) for values in (a, b)]
    result = dot(mma, ARCHS[arch], *codes, dtype.encode([c]).view(dtype.bits))
    return float(dtype.decode(result.view(dtype.numpy))[0])


@pytest.mark.parametrize(("arch", "least"), [("sm_80", 24), ("sm_90", 25)])
def test_terms_are_cut_below_the_largest(arch: str, least: int) -> None:
    """Seven terms beside a product of 1 count as far down as 2^-24 on sm_80 and 2^-25 on sm_90."""
    for exponent in range(22, 28):
        exact = 1 + (7 * 2.0**-exponent if exponent <= least else 0)
        found = d_of(BF16, arch, [1.0, *[2.0**-exponent] * 7], [1.0] * 8, 0.0)
        assert found == np.floor(exact * 2**23) / 2**23


def test_a_step_takes_as_many_products_as_the_architecture_has() -> None:
    """Two halves of C's last bit: in one step they make one, in a step each both are lost."""
    a = [2.0**-24, *[0.0] * 7, 2.0**-24]
    assert d_of(BF16, "sm_80", a, [1.0] * 9, 1.0) == 1
    assert d_of(BF16, "sm_90", a, [1.0] * 9, 1.0) == 1 + 2.0**-23


def test_sums_are_cut_towards_zero_and_those_of_f16_rounded() -> None:
    assert d_of(F16, "sm_90", [1.0], [1.0], 2.0**-24 * 3) == 1 + 2.0**-23
    assert d_of(F16, "sm_90", [-1.0], [1.0], -(2.0**-24) * 3) == -1 - 2.0**-23
    assert d_of(HALVES, "sm_90", [1.0], [1.0], 2.0**-11) == 1  # a tie, to even
    assert d_of(HALVES, "sm_90", [1.0, 2.0**-13], [1.0, 1.0], 2.0**-11) == 1 + 2.0**-10


def test_fp8_keeps_13_bits_on_sm_89_and_more_on_sm_120() -> None:
    assert d_of(E4M3, "sm_89", [1.0], [1.0], 2.0**-13) == 1 + 2.0**-13
    assert d_of(E4M3, "sm_89", [1.0], [1.0], 2.0**-14) == 1
    assert d_of(E4M3, "sm_120", [1.0], [1.0], 2.0**-14) == 1 + 2.0**-14


def test_tf32_is_the_upper_19_bits() -> None:
    assert d_of(TF32, "sm_90", [1 + 2.0**-11 + 2.0**-12], [1.0], 0.0) == 1.0
    assert d_of(TF32, "sm_90", [1 + 2.0**-10], [1.0], 0.0) == 1 + 2.0**-10


def test_f64_is_a_chain_of_fused_multiply_adds() -> None:
    x = 1 + 2.0**-52
    assert d_of(F64, "sm_90", [x], [x], -1 - 2.0**-51) == 2.0**-104


def test_inf_and_nan_are_as_ieee_says_with_one_nan() -> None:
    inf = float("inf")
    assert d_of(BF16, "sm_90", [inf, 1.0], [2.0, 1.0], 1.0) == inf
    for a, b, c in (([inf, -inf], [1.0, 1.0], 0.0), ([inf], [0.0], 1.0), ([inf], [1.0], -inf)):
        assert np.isnan(d_of(BF16, "sm_90", a, b, c))
    vectors = random_vectors(BF16, 16, products=2, seed=3)
    result = vectors.expected("sm_90")
    assert set(result[np.isnan(result.view(np.float32))].tolist()) == {0x7FFFFFFF}


def test_what_has_no_meaning_is_refused() -> None:
    codes = np.zeros(16, np.uint8)
    with pytest.raises(InvalidInput, match="sm_90 has no mma_m16n8k32_e4m3"):
        dot(E4M3, ARCHS["sm_90"], codes, codes, codes[0])
    with pytest.raises(InvalidInput, match="K = 16 is no multiple of mma_m16n8k32_e4m3's k = 32"):
        dot(E4M3, ARCHS["sm_89"], codes, codes, codes[0])


def test_vectors_are_the_same_on_every_machine() -> None:
    digests = [vectors.digest for vectors in vectors_of("sm_90", "k16_bf16")]
    assert digests == ["e8070712f1caf3b9", "de0babb245f4407b", "5bd46ba0be9f0c55", "6c7909e34b38a48a"]


def test_what_an_architecture_lacks_is_left_out_with_its_reason() -> None:
    reason = "sm_86 has no wgmma_m64n8k8_tf32, which is native on sm_90a"
    assert left_out("sm_86", "tf32") == {"wgmma_m64n8k8_tf32": reason}
    assert left_out("sm_90", "tf32") == {}
    assert {vectors.mma.function for vectors in vectors_of("sm_86", "tf32")} == {"mma_m16n8k8_tf32"}
    out = StringIO()
    show_arithmetic(Console(file=out), Recording("sm_86", {}, (), left_out=left_out("sm_86", "tf32")), ())
    assert f"left out: {reason}\n" in out.getvalue()


def recording(vectors: Vectors) -> Recording:
    return Recording("sm_90", {"device": "a test"}, ((vectors, vectors.expected("sm_90")),))


def test_a_file_gives_back_what_was_recorded(tmp_path: Path) -> None:
    vectors = next(vectors_of("sm_90", "s8u8"))
    path = tmp_path / "file.npz"
    recording(vectors).save(path)
    read = Recording.load(path)
    assert (read.arch, read.provenance["device"]) == ("sm_90", "a test")
    ((found, codes),) = read.results
    assert found.digest == vectors.digest
    np.testing.assert_array_equal(codes, vectors.expected("sm_90"))
    assert not any(one.differing for one in read.against_model())


def test_a_file_of_other_vectors_is_refused(tmp_path: Path) -> None:
    recording(random_vectors(BF16, 16, products=2, seed=3)).save(tmp_path / "file.npz")
    with pytest.raises(GemmgenError, match=r"was recorded of other vectors: mma_m16n8k16_bf16 x 1"):
        Recording.load(tmp_path / "file.npz")


def test_one_other_bit_is_told_with_its_place() -> None:
    vectors = random_vectors(BF16, 16, products=2, seed=3)
    codes = vectors.expected("sm_90")
    codes[1, 3, 5] ^= 1
    told = compare(vectors, codes, vectors.expected("sm_90"))
    assert told.differing == 1 and "product 1, row 3, column 5: 0x" in told.first


def test_cards_of_one_architecture_have_the_same_bits() -> None:
    """So the model is held against one of them here, and against each in soak."""
    first: dict[str, Recording] = {}
    for recording in map(Recording.load, RECORDED):
        known = first.setdefault(recording.arch, recording)
        for (vectors, codes), (others, same) in zip(recording.results, known.results, strict=True):
            assert vectors.digest == others.digest and np.array_equal(codes, same), vectors.mma.function
    assert len(first) < len(RECORDED)


@pytest.mark.parametrize(
    "path",
    [path if path in FIRST else pytest.param(path, marks=pytest.mark.soak) for path in RECORDED],
    ids=lambda path: path.stem,
)
def test_the_model_has_the_bits_of_the_card(path: Path) -> None:
    agreements = list(Recording.load(path).against_model())
    assert len(agreements) >= 20
    assert [one for one in agreements if one.differing] == []
