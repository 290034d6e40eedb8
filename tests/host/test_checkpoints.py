"""Quantised weights of public checkpoint formats become one record."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemmgen.checkpoints.awq import awq_weight
from gemmgen.checkpoints.compressed import compressed_weight
from gemmgen.checkpoints.files import open_checkpoint
from gemmgen.checkpoints.gptq import gptq_weight
from gemmgen.checkpoints.scheme import Scheme, recognise
from gemmgen.checkpoints.torchao import pairs_weight, torchao_weight
from gemmgen.checkpoints.weight import QuantisedWeight
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.inputs import Inputs
from gemmgen.run.executor import Operands
from gemmgen.support.errors import InvalidInput
from gemmgen.verification.companions import factor

WRITTEN = Path(__file__).parent / "checkpoints"  # by the packages' own code: see write.py there
BF16 = DType.BF16.numpy
N = 16
READERS = {"gptq": gptq_weight, "gptq_v2": gptq_weight, "awq": awq_weight, "compressed-tensors": compressed_weight}
Tensors = dict[str, np.ndarray]


def words(*shape: int, value: int) -> np.ndarray:
    return np.full(shape, value, np.uint32).view(np.int32)


def scales_of(groups: int, n: int = N) -> np.ndarray:
    """Groups x N scales, no two alike."""
    return (np.arange(1, groups * n + 1).reshape(groups, n) / 64).astype(np.float16)


def read(form: str, tensors: Mapping[str, Any], **fields: Any) -> QuantisedWeight:
    return READERS[form](tensors, Scheme(form, **fields))


# Bytes written out by hand.

LOW = np.arange(8, dtype=np.uint8)  # codes 0..7: those of the word 0x76543210


def gptq_tensors(k: int, group: int, zero_word: int = 0x87654321) -> Tensors:
    """Codes k % 8, but 8..15 for k = 8..15 of n = 5. Zero points of version 2: n % 8 + 1."""
    qweight = words(k // 8, N, value=0x76543210)
    qweight[1, 5] = np.uint32(0xFEDCBA98).astype(np.int32)
    qzeros = words(k // group, N // 8, value=zero_word)
    g_idx = (np.arange(k) // group).astype(np.int32)
    return {"qweight": qweight, "qzeros": qzeros, "scales": scales_of(k // group), "g_idx": g_idx}


@pytest.mark.parametrize(("k", "group"), [(32, 32), (64, 32), (128, 128)])
@pytest.mark.parametrize(("form", "zero_word"), [("gptq", 0x76543210), ("gptq_v2", 0x87654321)])
def test_gptq_packs_along_k_and_version_1_stores_zero_points_less_one(
    form: str, zero_word: int, k: int, group: int
) -> None:
    tensors = gptq_tensors(k, group, zero_word)
    found = read(form, tensors, group=group)
    codes = np.tile(LOW, (N, k // 8))
    codes[5, 8:16] += 8
    np.testing.assert_array_equal(found.codes, codes)
    np.testing.assert_array_equal(found.zeros, np.tile(LOW + 1, (k // group, N // 8)))
    np.testing.assert_array_equal(found.scales, tensors["scales"])
    assert (found.n, found.k, found.group, found.bits, found.scale_type) == (N, k, group, 4, DType.F16)


def test_gptq_of_8_bits_packs_four_codes_to_a_word() -> None:
    tensors = {
        "qweight": words(8, N, value=0xFF800100),
        "qzeros": words(1, N // 4, value=0x7F7E7D7C),
        "scales": scales_of(1),
    }
    found = read("gptq", tensors, bits=8)
    np.testing.assert_array_equal(found.codes, np.tile(np.uint8([0, 1, 128, 255]), (N, 8)))
    np.testing.assert_array_equal(found.zeros, np.tile(np.uint8([125, 126, 127, 128]), (1, 4)))
    assert (found.group, found.bits) == (32, 8)


def test_a_zero_point_of_0_borrows_from_its_neighbour_in_version_1() -> None:
    """0x00000021 less 0x11111111, as words: writers subtract so."""
    tensors = gptq_tensors(32, 32, zero_word=(0x00000021 - 0x11111111) % 2**32)
    found = read("gptq", tensors, group=32)
    np.testing.assert_array_equal(found.zeros, [[1, 2, 0, 0, 0, 0, 0, 0] * 2])


def test_symmetric_gptq_has_no_zero_points() -> None:
    v1, v2 = (gptq_tensors(32, 32, zero_word=word) for word in (0x77777777, 0x88888888))
    for symmetric in (True, None):
        assert read("gptq", v1, group=32, symmetric=symmetric).zeros is None
        assert read("gptq_v2", v2, group=32, symmetric=symmetric).zeros is None
    assert read("gptq", v1, group=32, symmetric=False).zeros is not None


@pytest.mark.parametrize(("k", "group"), [(32, 32), (64, 32), (128, 128)])
def test_awq_interleaves_the_columns_of_a_word(k: int, group: int) -> None:
    qweight = words(k, N // 8, value=0x75316420)  # columns 0, 2, 4, 6, 1, 3, 5, 7 from the lowest bits
    qweight[3, 1] = np.uint32(0xFDB9ECA8).astype(np.int32)
    qzeros = words(k // group, N // 8, value=0x8642753F)
    found = read("awq", {"qweight": qweight, "qzeros": qzeros, "scales": scales_of(k // group)}, group=group)
    codes = np.tile(np.tile(LOW, N // 8)[:, None], (1, k))
    codes[8:, 3] += 8
    np.testing.assert_array_equal(found.codes, codes)
    np.testing.assert_array_equal(found.zeros, np.tile(np.uint8([15, 2, 3, 4, 5, 6, 7, 8]), (k // group, N // 8)))


def compressed_tensors(k: int, group: int) -> Tensors:
    return {
        "weight_packed": words(N, k // 8, value=0x76543210),
        "weight_scale": np.ascontiguousarray(scales_of(k // group).T).astype(BF16),
        "weight_shape": np.array([N, k]),
        "weight_zero_point": words(N // 8, k // group, value=0xFEDCBA98),
    }


@pytest.mark.parametrize(("k", "group"), [(32, 32), (64, 32), (128, 128)])
def test_compressed_tensors_packs_weights_along_k_and_zero_points_along_n(k: int, group: int) -> None:
    found = read("compressed-tensors", compressed_tensors(k, group), group=group, symmetric=False)
    np.testing.assert_array_equal(found.codes, np.tile(LOW, (N, k // 8)))
    np.testing.assert_array_equal(found.zeros, np.tile(LOW + 8, (k // group, N // 8)))
    np.testing.assert_array_equal(found.scales, scales_of(k // group).astype(BF16))
    assert found.scale_type is DType.BF16


def int4_tensors(k: int, group: int) -> Tensors:
    qdata = np.full((N, k // 2), 0xF8, np.uint8)  # -8, then -1
    return {
        "_weight_qdata": qdata.view(np.int8),
        "_weight_scale": scales_of(k // group).astype(BF16),
        "_weight_zero_point": np.zeros((k // group, N), BF16),
    }


@pytest.mark.parametrize(("k", "group"), [(32, 32), (64, 32), (128, 128)])
def test_an_int4_tensor_holds_signed_values_the_first_in_the_low_half(k: int, group: int) -> None:
    found = torchao_weight(int4_tensors(k, group), {"_type": "Int4Tensor"})
    np.testing.assert_array_equal(found.codes, np.tile(np.uint8([0, 7]), (N, k // 2)))
    assert (found.zeros, found.group) == (None, group)


INT4, INT8 = ({"target_dtype": {"_type": "torch.dtype", "_data": f"int{bits}"}} for bits in (4, 8))


@pytest.mark.parametrize(("bits", "fields"), [(4, INT4), (8, INT8)])
def test_an_intx_tensor_holds_a_value_to_a_byte(bits: int, fields: dict[str, Any]) -> None:
    middle = 2 ** (bits - 1)
    tensors = {
        "_weight_qdata": np.tile(np.int8([-middle, -1, 0, middle - 1]), (N, 16)),
        "_weight_scale": np.ascontiguousarray(scales_of(2).T),
        "_weight_zero_point": np.tile(np.int8([-3, 2]), (N, 1)),
    }
    found = torchao_weight(tensors, {"_type": "IntxUnpackedToInt8Tensor", "_data": fields})
    codes = np.uint8([0, middle - 1, middle, 2 * middle - 1])
    np.testing.assert_array_equal(found.codes, np.tile(codes, (N, 16)))
    np.testing.assert_array_equal(found.zeros, [[middle - 3] * N, [middle + 2] * N])
    assert (found.group, found.bits) == (32, bits)


def test_pairs_for_tinygemm_have_the_first_code_in_the_high_half() -> None:
    scale_and_zero = np.stack((scales_of(2), np.zeros((2, N))), axis=-1).astype(BF16)
    found = pairs_weight(np.full((N, 32), 0x1F, np.uint8), scale_and_zero)
    np.testing.assert_array_equal(found.codes, np.tile(np.uint8([1, 15]), (N, 32)))
    np.testing.assert_array_equal(found.scales, scales_of(2).astype(BF16))
    assert (found.zeros, found.group) == (None, 32)


# Any codes, by a packer that follows each format's definition.


def word(codes: np.ndarray, bits: int) -> np.int32:
    """Codes in a word, the first in its lowest bits."""
    return np.uint32(sum(int(code) << bits * at for at, code in enumerate(codes))).astype(np.int32)


def packed(codes: np.ndarray, bits: int) -> np.ndarray:
    """Each row of codes in words; what is left of the last one is 0."""
    step = 32 // bits
    return np.array([[word(row[at : at + step], bits) for at in range(0, len(row), step)] for row in codes])


def packed_awq(codes: np.ndarray) -> np.ndarray:
    order = [8 * at + column for at in range(codes.shape[1] // 8) for column in (0, 2, 4, 6, 1, 3, 5, 7)]
    return packed(codes[:, order], 4)


def as_gptq(codes: np.ndarray, zeros: np.ndarray, bits: int) -> Tensors:
    return {"qweight": packed(codes, bits).T, "qzeros": packed(zeros, bits)}


def as_gptq_v1(codes: np.ndarray, zeros: np.ndarray, bits: int) -> Tensors:
    ones = np.uint32({4: 0x11111111, 8: 0x01010101}[bits])
    return {"qweight": packed(codes, bits).T, "qzeros": (packed(zeros, bits).view(np.uint32) - ones).view(np.int32)}


def as_awq(codes: np.ndarray, zeros: np.ndarray, _bits: int) -> Tensors:
    return {"qweight": packed_awq(codes.T), "qzeros": packed_awq(zeros)}


def as_compressed(codes: np.ndarray, zeros: np.ndarray, bits: int) -> Tensors:
    shape = np.array(codes.shape)
    return {"weight_packed": packed(codes, bits), "weight_zero_point": packed(zeros, bits).T, "weight_shape": shape}


PACKERS: dict[str, Callable[[np.ndarray, np.ndarray, int], Tensors]] = {
    "gptq": as_gptq_v1,
    "gptq_v2": as_gptq,
    "awq": as_awq,
    "compressed-tensors": as_compressed,
}


@st.composite
def weights(draw: st.DrawFn, form: str) -> QuantisedWeight:
    group = draw(st.sampled_from((32, 64, 128)))
    bits = 4 if form == "awq" else draw(st.sampled_from((4, 8)))
    n = draw(st.integers(1, 3)) * 8 if form == "awq" else draw(st.integers(1, 20))
    k = group * draw(st.integers(1, 3)) if form == "awq" else draw(st.integers(1, 200))
    group = draw(st.sampled_from((group, k)))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scales = random.uniform(0.001, 0.1, (-(-k // group), n)).astype(np.float16)
    zeros = random.integers(0, 2**bits, scales.shape, np.uint8)
    return QuantisedWeight(random.integers(0, 2**bits, (n, k), np.uint8), scales, zeros, group, bits)


@pytest.mark.parametrize("form", PACKERS)
@given(data=st.data())
def test_packed_codes_and_zero_points_come_back(form: str, data: st.DataObject) -> None:
    weight = data.draw(weights(form))
    assert weight.zeros is not None
    tensors = PACKERS[form](weight.codes, weight.zeros, weight.bits)
    if form == "compressed-tensors":
        tensors["weight_scale"] = weight.scales.T
    else:
        tensors["scales"] = weight.scales
    if form.startswith("gptq"):
        tensors["g_idx"] = np.arange(weight.k) // weight.group
    found = read(form, tensors, bits=weight.bits, group=weight.group, symmetric=False)
    np.testing.assert_array_equal(found.codes, weight.codes)
    np.testing.assert_array_equal(found.zeros, weight.zeros)
    np.testing.assert_array_equal(found.scales, weight.scales)
    assert (found.group, found.bits) == (weight.group, weight.bits)


@given(weight=weights("gptq"))
def test_dequantised_weights_are_exact(weight: QuantisedWeight) -> None:
    assert weight.zeros is not None
    group = np.arange(weight.k) // weight.group
    steps = weight.codes.astype(int) - weight.zeros.T[:, group]
    np.testing.assert_array_equal(weight.dequantised(), steps * weight.scales.T[:, group].astype(np.float64))


@given(weight=weights("gptq"))
def test_torchaos_values_come_back(weight: QuantisedWeight) -> None:
    k = weight.k // weight.group * weight.group
    if k == 0:
        return
    groups, middle = k // weight.group, weight.middle
    assert weight.zeros is not None
    codes, zeros, scales = weight.codes[:, :k], weight.zeros[:groups], weight.scales[:groups]
    tensors = {
        "_weight_qdata": (codes.astype(int) - middle).astype(np.int8),
        "_weight_scale": scales.T,
        "_weight_zero_point": (zeros.astype(int) - middle).astype(np.int8).T,
    }
    record = {"_type": "IntxUnpackedToInt8Tensor", "_data": INT4 if weight.bits == 4 else INT8}
    found = torchao_weight(tensors, record)
    np.testing.assert_array_equal(found.codes, codes)
    np.testing.assert_array_equal(middle if found.zeros is None else found.zeros, zeros)
    if weight.bits == 4 and k % 2 == 0:
        signed = (codes.astype(int) - 8) & 15
        tensors["_weight_qdata"] = (signed[:, ::2] | signed[:, 1::2] << 4).astype(np.uint8)
        tensors |= {"_weight_scale": scales, "_weight_zero_point": np.zeros(scales.shape, np.float32)}
        np.testing.assert_array_equal(torchao_weight(tensors, {"_type": "Int4Tensor"}).codes, codes)


# What kernels are given.


@pytest.mark.parametrize("layout", ["r", "c"])
@given(data=st.data())
def test_packed_bytes_hold_b_as_kernels_read_it(layout: Any, data: st.DataObject) -> None:
    """As `code` of templates/naive/operands.cu: element i is in byte i / 2, the first in its low half."""
    weight = data.draw(weights("gptq"))
    elements = (weight.codes if layout == "c" else weight.codes.T).reshape(-1).astype(int)
    unsigned, signed = (DType.U4, DType.S4) if weight.bits == 4 else (DType.U8, DType.S8)
    plain, moved = weight.packed(unsigned, layout), weight.packed(signed, layout)
    for at, element in enumerate(elements):
        byte, other = (int(one[at // 2 if weight.bits == 4 else at]) for one in (plain, moved))
        shift = 4 * (at % 2) if weight.bits == 4 else 0
        assert byte >> shift & 2**weight.bits - 1 == element
        assert (other >> shift ^ weight.middle) & 2**weight.bits - 1 == element
    assert weight.zeros is not None
    np.testing.assert_array_equal(weight.packed_zeros(), unsigned.packed(weight.zeros.reshape(-1)))


@pytest.mark.parametrize("name", ["gptq", "compressed8", "intx", "int4"])
def test_a_product_of_the_weights_inputs_multiplies_the_dequantised_weight(name: str) -> None:
    weight = open_checkpoint(WRITTEN / f"{name}.safetensors", CONFIGS[name])["proj"]
    to, b = weight.scale_type, weight.element
    problem = Problem(5, weight.n, weight.k, types=f"{to.label},{b.label},f32", layout="rc", inputs=str(weight.inputs))
    case = problem.case(m=5)
    elements = (weight.codes.astype(int) - (weight.middle if weight.zeros is None else 0)).astype(b.numpy).reshape(-1)
    np.testing.assert_array_equal(weight.packed(b), b.packed(elements))
    beside = {"scales_b": weight.scales.reshape(-1)}
    if weight.zeros is not None:
        beside["zeros_b"] = weight.zeros.astype(b.numpy).reshape(-1)
    unused = np.zeros(0)
    multiplied = factor(case, Operands(unused, elements, unused, beside), "B", (slice(None), slice(None)))
    np.testing.assert_array_equal(multiplied.T, to.nearest(weight.dequantised().astype(np.float64)))


def test_a_weight_says_how_a_product_takes_it() -> None:
    codes, zeros = np.zeros((N, 256), np.uint8), np.zeros((2, N), np.uint8)
    grouped = QuantisedWeight(codes, scales_of(2), zeros, 128)
    assert (grouped.inputs, grouped.element) == (Inputs(group=128, zeros=True), DType.U4)
    whole = QuantisedWeight(codes, scales_of(1), None, 256, 8)
    assert (whole.inputs, whole.element, whole.packed_zeros()) == (Inputs(group=0), DType.S8, None)


# Refused.


def without(tensors: Tensors, name: str) -> Tensors:
    return {one: tensor for one, tensor in tensors.items() if one != name}


GPTQ, COMPRESSED, INT4_TENSORS = gptq_tensors(64, 32), compressed_tensors(64, 32), int4_tensors(64, 32)
AWQ = {"qweight": words(64, 2, value=0), "qzeros": words(2, 2, value=0), "scales": scales_of(2)}


@pytest.mark.parametrize(
    ("form", "tensors", "fields", "message"),
    [
        ("gptq", GPTQ, {"bits": 3}, r"GPTQ of 3 bits: codes of 4 or 8 bits"),
        ("gptq", GPTQ, {"group": 128}, r"scales is 2 x 16: W of 16 x 64 in groups of 128 needs 1 x 16"),
        ("gptq", GPTQ, {"group": 16}, r"scales is 2 x 16: W of 16 x 64 in groups of 16 needs 4 x 16"),
        ("gptq", GPTQ, {"group": 32, "bits": 8}, r"qweight has 8 rows: g_idx of 64 and 8 bits need 16 rows"),
        ("gptq", without(GPTQ, "scales"), {}, r"no tensor scales: the layer has g_idx, qweight, qzeros"),
        ("gptq", GPTQ | {"qzeros": GPTQ["qzeros"][:1]}, {"group": 32}, r"qzeros is 1 x 2: .* needs 2 x 2"),
        ("gptq", GPTQ | {"scales": GPTQ["scales"][:, :8]}, {"group": 32}, r"scales is 2 x 8: .* needs 2 x 16"),
        ("gptq", GPTQ | {"scales": np.int16(GPTQ["scales"])}, {"group": 32}, r"int16"),
        (
            "gptq",
            GPTQ | {"scales": np.float64(GPTQ["scales"])},
            {"group": 32},
            r"scales of float64: known are f16, bf16",
        ),
        ("gptq", GPTQ | {"qweight": np.int64(GPTQ["qweight"])}, {}, r"qweight of int64: words of int32"),
        ("gptq", GPTQ | {"qweight": GPTQ["qweight"][0]}, {}, r"qweight is 16: 2 dimensions are needed"),
        ("gptq", GPTQ | {"g_idx": np.arange(64) % 2}, {"group": 32}, r"g_idx\[1\] = 1, and 1 // 32 = 0: .*act-order"),
        ("gptq", GPTQ, {"group": 32, "symmetric": True}, r"zero points are 2 to 9, and those of a symmetric scheme 8"),
        ("awq", AWQ, {"bits": 8}, r"AWQ of 8 bits: codes of 4 bits"),
        ("awq", AWQ, {"group": 128}, r"K = 64: AWQ needs a multiple of the group, 128"),
        ("awq", AWQ | {"scales": AWQ["scales"].T}, {"group": 32}, r"scales is 16 x 2: .*version gemm. needs 2 x 16"),
        ("awq", AWQ | {"qzeros": AWQ["qzeros"][:, :1]}, {"group": 32}, r"qzeros is 2 x 1: .* needs 2 x 2"),
        ("awq", AWQ, {"group": 32, "symmetric": True}, r"zero points are 0 to 0.* is zero_point = false right"),
        ("compressed-tensors", COMPRESSED, {"bits": 5}, r"of 5 bits: codes of 4 or 8"),
        ("compressed-tensors", COMPRESSED, {"group": 128}, r"weight_scale is 16 x 2: .* needs 16 x 1"),
        (
            "compressed-tensors",
            COMPRESSED | {"weight_shape": np.array([16, 72])},
            {},
            r"weight_packed is 16 x 8: .* 16 x 9",
        ),
        (
            "compressed-tensors",
            COMPRESSED | {"weight_shape": np.array([4, 16, 64])},
            {},
            r"3 numbers: N and K.* one expert",
        ),
        ("compressed-tensors", COMPRESSED | {"weight_shape": np.array([16, 0])}, {}, r"weight_shape = 16 x 0"),
        (
            "compressed-tensors",
            COMPRESSED | {"weight_zero_point": words(16, 2, value=0)},
            {"group": 32},
            r"weight_zero_point is 16 x 2: N = 16 in 2 groups, packed along N, needs 2 x 2",
        ),
        (
            "compressed-tensors",
            COMPRESSED | {"weight_g_idx": np.arange(64) % 2},
            {"group": 32},
            r"weight_g_idx\[1\] = 1.*act-order",
        ),
        (
            "compressed-tensors",
            without(COMPRESSED, "weight_zero_point"),
            {"group": 32, "symmetric": False},
            r"no tensor weight_zero_point, and symmetric = false",
        ),
    ],
)
def test_tensors_that_do_not_fit_are_refused(form: str, tensors: Tensors, fields: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read(form, tensors, **fields)


INTX = {
    "_weight_qdata": np.zeros((N, 64), np.int8),
    "_weight_scale": np.ones((N, 2), np.float32),
    "_weight_zero_point": np.zeros((N, 2), np.int8),
}


@pytest.mark.parametrize(
    ("tensors", "record", "message"),
    [
        (INT4_TENSORS, {"_type": "Int4TilePackedTo4dTensor"}, "tiled for tinygemm"),
        (INT4_TENSORS, {"_type": "Int4PlainInt32Tensor"}, "other devices"),
        (INT4_TENSORS, {"_type": "Float8Tensor"}, "Int4Tensor, IntxUnpackedToInt8Tensor are read"),
        (INT4_TENSORS, {}, "torchao's None"),
        (INT4_TENSORS | {"_weight_zero_point": np.full((2, N), 0.5)}, {"_type": "Int4Tensor"}, "0.5.*tinygemm"),
        (INT4_TENSORS | {"_weight_act_pre_scale": np.ones(64)}, {"_type": "Int4Tensor"}, "act_pre_scale"),
        (INT4_TENSORS | {"_weight_scale": np.ones((3, N))}, {"_type": "Int4Tensor"}, "K = 64, and 3 groups"),
        (INTX, {"_data": INT4 | {"target_dtype": "int3"}}, "torchao of 3 bits"),
        (INTX, {"_data": {}}, "target_dtype = None"),
        (INTX | {"_weight_zero_point": np.full((N, 2), 1.5)}, {"_data": INT4}, "1.5.*tinygemm"),
        (INTX | {"_weight_zero_point": np.full((N, 2), 8, np.int8)}, {"_data": INT4}, "0 to 8: 4 bits hold -8 to 7"),
        (INTX | {"_weight_qdata": np.full((N, 64), -9, np.int8)}, {"_data": INT4}, "-9 to 0: 4 bits hold -8 to 7"),
        (INTX | {"_weight_zero_point": np.zeros((2, N), np.int8)}, {"_data": INT4}, "needs 2 x 16"),
    ],
)
def test_torchaos_other_tensors_are_refused(tensors: Tensors, record: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        torchao_weight(tensors, {"_type": "IntxUnpackedToInt8Tensor"} | record if "_data" in record else record)


def test_pairs_with_a_shift_are_refused() -> None:
    pairs = np.zeros((N, 32), np.uint8)
    with pytest.raises(InvalidInput, match="tinygemm"):
        pairs_weight(pairs, np.ones((2, N, 2), np.float32))
    with pytest.raises(InvalidInput, match="2 x 16 x 3: groups x N x 2"):
        pairs_weight(pairs, np.ones((2, N, 3), np.float32))


CODES = np.zeros((N, 64), np.uint8)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ((CODES, scales_of(2), None, 32, 3), "bits = 3: known are 4, 8"),
        ((CODES + 16, scales_of(2), None, 32, 4), "codes hold 16: 4 bits hold at most 15"),
        ((CODES.astype(int), scales_of(2), None, 32, 4), "codes of int64: uint8"),
        ((CODES[0], scales_of(2), None, 32, 4), "codes are 64: N x K"),
        ((CODES, scales_of(4), None, 16, 4), "groups of 16: known are 32, 64, 128 and K = 64"),
        ((CODES, scales_of(1), None, 32, 4), "scales are 1 x 16: codes of 16 x 64 in groups of 32 need 2 x 16"),
        ((CODES, scales_of(2), CODES[:1, :N], 32, 4), "zeros are 1 x 16: .* need 2 x 16"),
        ((CODES, scales_of(2), CODES[:2, :N] + 16, 32, 4), "zeros hold 16"),
    ],
)
def test_a_record_that_does_not_fit_together_is_refused(fields: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        QuantisedWeight(*fields)


def test_codes_are_packed_at_their_own_width() -> None:
    weight = QuantisedWeight(CODES, scales_of(2), None, 32)
    with pytest.raises(InvalidInput, match="codes of 4 bits as u8: they are packed as u4 or s4"):
        weight.packed(DType.U8)


# Configs.

W4 = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 128}


def groups_of(*weights: Any, **fields: Any) -> dict[str, Any]:
    groups = {f"group_{at}": {"targets": ["Linear"], "weights": one} for at, one in enumerate(weights)}
    return {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": groups} | fields


GPTQ_CONFIG = {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True, "desc_act": False}
AWQ_CONFIG = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"}


@pytest.mark.parametrize(
    ("config", "scheme"),
    [
        (GPTQ_CONFIG, Scheme("gptq", 4, 128, True)),
        (GPTQ_CONFIG | {"group_size": -1, "sym": False}, Scheme("gptq", 4, 0, False)),
        (GPTQ_CONFIG | {"checkpoint_format": "gptq_v2", "bits": 8}, Scheme("gptq_v2", 8, 128, True)),
        ({"method": "gptq", "format": "gptq_v2", "bits": 4, "group_size": 32}, Scheme("gptq_v2", 4, 32)),
        (AWQ_CONFIG, Scheme("awq", 4, 128, False)),
        (AWQ_CONFIG | {"backend": "auto"}, Scheme("awq", 4, 128, False)),
        ({"quant_method": "awq", "w_bit": 4, "q_group_size": 64, "version": "GEMM"}, Scheme("awq", 4, 64)),
        (groups_of(W4), Scheme("compressed-tensors", 4, 128, True)),
        (groups_of(W4, W4, None), Scheme("compressed-tensors", 4, 128, True)),
        (groups_of(W4 | {"strategy": "channel", "symmetric": False}), Scheme("compressed-tensors", 4, 0, False)),
        ({"quant_method": "torchao", "quant_type": {"default": {}}}, Scheme("torchao")),
    ],
)
def test_a_config_names_the_format(config: dict[str, Any], scheme: Scheme) -> None:
    assert recognise(config) == scheme


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"quant_method": "bitsandbytes"}, "quant_method = 'bitsandbytes': known are awq, compressed-tensors, gptq"),
        ({}, "quant_method = None"),
        (GPTQ_CONFIG | {"checkpoint_format": "marlin"}, "checkpoint_format = 'marlin': gptq and gptq_v2 are read"),
        (GPTQ_CONFIG | {"is_marlin_format": True}, "is_marlin_format"),
        (GPTQ_CONFIG | {"pack_dtype": "int16"}, "pack_dtype = 'int16'"),
        (GPTQ_CONFIG | {"bits": "four"}, "bits = 'four' is no whole number"),
        (GPTQ_CONFIG | {"group_size": 0}, "group_size = 0: at least 1"),
        (GPTQ_CONFIG | {"sym": "yes"}, "sym = 'yes': write true or false"),
        ({"quant_method": "gptq", "group_size": 32}, "no bits"),
        (AWQ_CONFIG | {"version": "gemv"}, "version = 'gemv': gemm is read"),
        (AWQ_CONFIG | {"version": "gemv_fast"}, "version = 'gemv_fast'"),
        (AWQ_CONFIG | {"backend": "llm-awq"}, "backend = 'llm-awq'"),
        (groups_of(W4, format="int-quantized"), "format = 'int-quantized' of config_groups.group_0"),
        (groups_of(W4 | {"type": "float"}), "weights of type 'float'"),
        (groups_of(W4 | {"strategy": "tensor"}), "strategy = 'tensor'"),
        (groups_of(W4, W4 | {"num_bits": 8}), "config_groups differ .*4 bits, groups of 128, group_1: 8 bits"),
        (groups_of(None), "no group has weights"),
        (groups_of(config_groups={"W4A16": ["Linear"]}), "a preset's name"),
        (groups_of(config_groups=None), "config_groups = None"),
    ],
)
def test_other_configs_are_refused_with_the_reason(config: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        recognise(config)


def test_names_of_tensors_must_go_with_the_config() -> None:
    assert recognise(AWQ_CONFIG, ["up.qweight", "norm.weight"]).form == "awq"
    with pytest.raises(InvalidInput, match="no tensor is named qweight: names end in bias, weight_packed"):
        recognise(AWQ_CONFIG, ["up.weight_packed", "up.bias"])
    with pytest.raises(InvalidInput, match="desc_act = true, and no tensor g_idx"):
        recognise(GPTQ_CONFIG | {"desc_act": True}, ["up.qweight"])


# Files.


def write(path: Path, tensors: Tensors, metadata: dict[str, str] | None = None) -> None:
    from safetensors.numpy import save_file  # optional

    save_file({name: np.ascontiguousarray(one) for name, one in tensors.items()}, path, metadata)


def config_of(folder: Path, config: dict[str, Any]) -> None:
    (folder / "config.json").write_text(json.dumps({"quantization_config": config}))


CONFIGS = {
    "awq": AWQ_CONFIG | {"group_size": 32},
    "gptq": GPTQ_CONFIG | {"group_size": 32, "sym": False},
    "gptq_v2": GPTQ_CONFIG | {"group_size": 32, "sym": False, "checkpoint_format": "gptq_v2"},
    "compressed": groups_of(W4 | {"group_size": 32, "symmetric": False}),
    "compressed8": groups_of(W4 | {"group_size": 32, "num_bits": 8}),
    "int4": {"quant_method": "torchao"},
    "intx": {"quant_method": "torchao"},
}


@pytest.mark.parametrize("name", CONFIGS)
def test_files_of_the_packages_hold_what_the_packages_read(name: str) -> None:
    from safetensors import safe_open  # optional

    path = WRITTEN / f"{name}.safetensors"
    checkpoint = open_checkpoint(path, CONFIGS[name])
    weight = checkpoint["proj"]
    with safe_open(path, framework="np") as file:
        expected = file.get_tensor("expected")
    np.testing.assert_array_equal(weight.dequantised().astype(expected.dtype), expected)
    assert (weight.n, weight.k, weight.group, checkpoint.plain) == (32, 64, 32, ("expected",))
    assert (weight.zeros is None) == (name in ("compressed8", "int4"))


def test_each_file_of_a_package_is_read() -> None:
    assert {path.stem for path in WRITTEN.glob("*.safetensors")} == {*CONFIGS}


def test_a_folder_of_shards_is_read_layer_by_layer(tmp_path: Path) -> None:
    good, bad = gptq_tensors(64, 32), gptq_tensors(64, 32) | {"g_idx": np.arange(64) % 2}
    up = {f"model.up.{name}": tensor for name, tensor in good.items()}
    down = {f"model.down.{name}": tensor for name, tensor in bad.items()}
    late = {"model.up.scales": up.pop("model.up.scales"), "model.up.bias": np.zeros(N, np.float16)}
    shards = {"a.safetensors": up, "b.safetensors": down | late | {"model.norm.weight": np.ones(64, BF16)}}
    for name, tensors in shards.items():
        write(tmp_path / name, tensors)
    weight_map = {tensor: name for name, tensors in shards.items() for tensor in tensors}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    (tmp_path / "other.safetensors").write_bytes(b"not of the index")
    config_of(tmp_path, CONFIGS["gptq_v2"])
    checkpoint = open_checkpoint(tmp_path)
    assert list(checkpoint) == ["model.down", "model.up"] and len(checkpoint) == 2
    assert checkpoint.plain == ("model.norm.weight", "model.up.bias")
    np.testing.assert_array_equal(checkpoint["model.up"].scales, good["scales"])
    with pytest.raises(InvalidInput, match=r"^model\.down: g_idx.*act-order"):
        checkpoint["model.down"]


def test_a_tensor_of_no_layer_stays_plain(tmp_path: Path) -> None:
    write(tmp_path / "model.safetensors", AWQ | {f"up.{name}": tensor for name, tensor in AWQ.items()})
    checkpoint = open_checkpoint(tmp_path, AWQ_CONFIG)
    assert ([*checkpoint], checkpoint.plain) == (["up"], ("qweight", "qzeros", "scales"))


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="has no safetensors file"):
        open_checkpoint(tmp_path, AWQ_CONFIG)
    file = tmp_path / "model.safetensors"
    with pytest.raises(InvalidInput, match=r"cannot read .*model\.safetensors"):
        open_checkpoint(file, AWQ_CONFIG)
    file.write_bytes(b"no safetensors")
    with pytest.raises(InvalidInput, match=r"cannot read .*model\.safetensors"):
        open_checkpoint(file, AWQ_CONFIG)
    write(file, {f"up.{name}": tensor for name, tensor in AWQ.items()})
    with pytest.raises(InvalidInput, match=r"has no config\.json"):
        open_checkpoint(file)
    for text, message in (
        ("{", "is not JSON"),
        ("[]", "a JSON object is needed"),
        ("{}", "the model is not quantised"),
    ):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(InvalidInput, match=message):
            open_checkpoint(file)
    config_of(tmp_path, AWQ_CONFIG | {"group_size": 32})
    assert [*open_checkpoint(file)] == [*open_checkpoint(tmp_path)] == ["up"]


def test_a_missing_package_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(InvalidInput, match=r"safetensors is missing: pip install 'gemmgen\[checkpoints\]'"):
        open_checkpoint(WRITTEN / "awq.safetensors", AWQ_CONFIG)


@pytest.mark.parametrize(
    ("index", "message"),
    [({"weight_map": {"a": "../other.safetensors"}}, "files in its own folder"), ({}, "has no weight_map")],
)
def test_an_index_names_files_of_its_folder(tmp_path: Path, index: dict[str, Any], message: str) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(InvalidInput, match=message):
        open_checkpoint(tmp_path, AWQ_CONFIG)


def test_torchs_tensors_are_read(torch: Any) -> None:
    tensors = {name: torch.from_numpy(one) for name, one in without(COMPRESSED, "weight_scale").items()}
    tensors["weight_scale"] = torch.from_numpy(COMPRESSED["weight_scale"].astype(np.float32)).to(torch.bfloat16)
    found = read("compressed-tensors", tensors, group=32)
    np.testing.assert_array_equal(found.scales, COMPRESSED["weight_scale"].T)
    assert found.scale_type is DType.BF16
    with pytest.raises(InvalidInput, match="weight_packed is no array on the CPU"):
        read("compressed-tensors", tensors | {"weight_packed": tensors["weight_packed"].to("meta")})


@given(
    st.integers(1, 5),
    st.integers(1, 70),
    st.sampled_from([32, 64]),
    st.booleans(),
    st.sampled_from([4, 8]),
    st.integers(0, 2**32 - 1),
)
def test_a_weight_is_rounded_to_the_nearest_code_of_its_group(
    n: int, k: int, group: int, symmetric: bool, bits: int, seed: int
) -> None:
    weight = np.random.default_rng(seed).standard_normal((n, k)).astype(np.float32)
    found = QuantisedWeight.nearest(weight, group, DType.F32, symmetric=symmetric, bits=bits)
    steps = np.repeat(found.scales.T, group, axis=1)[:, :k]
    zeros = found.middle if found.zeros is None else np.repeat(found.zeros.T.astype(int), group, axis=1)[:, :k]
    inside = (np.rint(weight / steps) + zeros >= 0) & (np.rint(weight / steps) + zeros < 2**bits)
    error = np.abs(found.dequantised() - weight)
    assert (error[inside] <= 0.5001 * steps[inside]).all() and (error <= 1.01 * steps).all()


def test_a_weight_that_is_not_finite_has_no_codes() -> None:
    with pytest.raises(InvalidInput, match="not finite"):
        QuantisedWeight.nearest(np.array([[1.0, np.inf]]))
