"""The table of tensor-core instructions."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from gemmgen.problem.device import ARCHS, parse_arch
from gemmgen.problem.dtype import DType
from gemmgen.problem.mma import MMAS, Mma
from gemmgen.support.errors import InvalidInput

EVERY = pytest.mark.parametrize("mma", MMAS.values(), ids=list(MMAS))


@EVERY
def test_the_registers_of_a_warp_hold_each_element_once(mma: Mma) -> None:
    fragments = (
        (mma.a_place, mma.a_registers, mma.a_shared, (mma.m, mma.k)),
        (mma.b_place, mma.b_registers, mma.a_shared, (mma.k, mma.n)),
        (mma.c_place, mma.c_registers, mma.c_shared, (mma.m, mma.n)),
    )
    for place, registers, shared, (rows, columns) in fragments:
        places = [place(lane, r, part) for lane, r, part in product(range(32), range(registers), range(shared))]
        assert sorted(places) == list(product(range(rows), range(columns)))


def test_places_are_those_of_the_manual() -> None:
    bf16, s8, tf32 = MMAS["mma_m16n8k16_bf16"], MMAS["mma_m16n8k32_s8"], MMAS["mma_m16n8k8_tf32"]
    assert [bf16.a_place(5, r, 1) for r in range(4)] == [(1, 3), (9, 3), (1, 11), (9, 11)]
    assert [bf16.b_place(5, r, 0) for r in range(2)] == [(2, 1), (10, 1)]
    assert [bf16.c_place(5, r) for r in range(4)] == [(1, 2), (1, 3), (9, 2), (9, 3)]
    assert [s8.a_place(31, r, 3) for r in range(4)] == [(7, 15), (15, 15), (7, 31), (15, 31)]
    assert [tf32.b_place(31, r) for r in range(2)] == [(3, 7), (7, 7)]
    assert MMAS["mma_m16n8k16_f16_f16"].c_place(5, 1, 1) == (9, 3)


def test_the_instruction_names_shape_and_types() -> None:
    assert MMAS["mma_m16n8k16_f16_f16"].ptx == "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16"
    assert MMAS["mma_m16n8k32_s8u8"].ptx == "mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32"
    assert MMAS["mma_m16n8k8_tf32"].ptx == "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"


def test_what_is_not_native_says_why() -> None:
    e4m3, s4 = MMAS["mma_m16n8k32_e4m3"], MMAS["mma_m16n8k64_s4"]
    assert e4m3.why_not(ARCHS["sm_89"]) is None
    assert e4m3.why_not(ARCHS["sm_90"]) == "sm_90 has no mma_m16n8k32_e4m3: it converts to f16, and multiplies that"
    assert e4m3.why_not(ARCHS["sm_80"]) == "sm_80 has no mma_m16n8k32_e4m3, which is native on sm_89, sm_120"
    assert "unpacks" in str(s4.why_not(parse_arch("sm_90a")))


def test_those_for_given_types_are_native_where_the_machine_code_has_them() -> None:
    def native(dtype: DType, accumulator: DType, arch: str) -> set[str]:
        found = (mma for mma in MMAS.values() if mma.a == mma.b == dtype and mma.accumulator == accumulator)
        return {mma.function for mma in found if mma.is_native(ARCHS[arch])}

    assert native(DType.F16, DType.F32, "sm_80") == {"mma_m16n8k16_f16", "mma_m16n8k8_f16"}
    assert native(DType.F64, DType.F64, "sm_86") == {"mma_m8n8k4_f64"}
    assert native(DType.E4M3, DType.F32, "sm_90") == set()
    assert native(DType.BF16, DType.F32, "sm_75") == set()


@pytest.mark.parametrize("wrong", [{"k": 12}, {"m": 32}, {"b": DType.S8}])
def test_what_fits_no_warp_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        replace(MMAS["mma_m16n8k16_bf16"], **wrong)
