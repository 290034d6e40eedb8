"""Names of architectures and cards."""

from __future__ import annotations

import re

import pytest

from gemmgen.problem.device import ARCHS, DEFAULT_ARCH, DEVICES, LIKE, device_for, device_named, parse_arch, spec_for
from gemmgen.problem.dtype import DType
from gemmgen.run.card import spec_of
from gemmgen.run.gpu.capability import DeviceProperties
from gemmgen.support.errors import InvalidInput


@pytest.mark.parametrize(
    ("text", "arch"),
    [("sm_80", "sm_80"), ("sm_90a", "sm_90"), ("sm_87", "sm_86"), ("sm_103", "sm_100"), ("sm_121", "sm_120")],
)
def test_archs(text: str, arch: str) -> None:
    assert parse_arch(text).name == arch


@pytest.mark.parametrize(
    "text", ["", "90", "sm_", "sm_70", "sm_91", "sm_95x", "SM_90", "compute_90", "sm_99999", "sm_90 "]
)
def test_unknown_archs_name_the_known_ones(text: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(f"unknown arch {text!r}: known are sm_75, sm_80")):
        parse_arch(text)


def test_cards_are_found_in_either_case() -> None:
    assert device_named("rtx 4090") is device_named("RTX 4090") is DEVICES["RTX 4090"]
    with pytest.raises(InvalidInput, match="unknown device 'RTX': known are T4, A100"):
        device_named("RTX")


@pytest.mark.parametrize("text", ["sm_91", "H20"])
def test_what_is_neither_an_arch_nor_a_card_names_all_of_both(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        spec_for(text)
    assert str(caught.value) == f"unknown arch {text!r}: known are {', '.join((*ARCHS, *LIKE, *DEVICES))}"
    assert spec_for("sm_87").name == "RTX 3090" and spec_for("h200") is DEVICES["H200"]


def test_every_arch_has_a_card_to_stand_for_it() -> None:
    assert {device_for(arch).arch.name for arch in ARCHS.values()} == set(ARCHS)
    assert DEFAULT_ARCH in ARCHS


@pytest.mark.parametrize(
    ("card", "tflops"), [("T4", 8.1), ("A100", 19.5), ("RTX 4090", 82.6), ("H100", 66.9), ("RTX 5090", 104.8)]
)
def test_f32_peaks_are_those_of_the_data_sheets(card: str, tflops: float) -> None:
    assert DEVICES[card].tflops(DType.F32) == pytest.approx(tflops, rel=0.01)


@pytest.mark.parametrize(
    ("card", "dtype", "sums", "tflops"),
    [
        ("T4", DType.F16, DType.F32, 65),
        ("A100", DType.BF16, DType.F32, 312),
        ("A100", DType.S8, DType.S32, 624),
        ("RTX 3090", DType.BF16, DType.F32, 71),
        ("RTX 3090", DType.F16, DType.F16, 142),
        ("RTX 3090", DType.S8, DType.S32, 284),
        ("A10", DType.BF16, DType.F32, 125),
        ("RTX 4090", DType.BF16, DType.F32, 165.2),
        ("RTX 4090", DType.E4M3, DType.F32, 330.3),
        ("L4", DType.BF16, DType.F32, 121),
        ("H100", DType.BF16, DType.F32, 989.4),
        ("RTX 5090", DType.F32, DType.F32, 104.8),  # tf32
        ("RTX 5090", DType.S8, DType.S32, 838),
    ],
)
def test_peaks_of_tensor_cores_are_those_of_the_data_sheets(
    card: str, dtype: DType, sums: DType, tflops: float
) -> None:
    """GeForce cards sum floats in f32 at half the rate of f16."""
    assert DEVICES[card].tensor_tflops(dtype, sums) == pytest.approx(tflops, rel=0.01)


def test_limits_of_old_and_new() -> None:
    assert ARCHS["sm_75"].limits.names == {
        "MAX_BLOCKS": 2**31 - 1,
        "MAX_THREADS": 1024,
        "MAX_SM_THREADS": 1024,
        "MAX_SHARED_BYTES": 64 * 1024,
        "HAS_CP_ASYNC": 0,
        "ARCH": 75,
    }
    assert ARCHS["sm_90"].limits.names["HAS_CP_ASYNC"] == 1


@pytest.mark.parametrize(
    ("name", "arch", "data_sheet"),
    [
        ("NVIDIA A100-SXM4-40GB", "sm_80", "A100"),
        ("NVIDIA GeForce RTX 4090", "sm_89", "RTX 4090"),
        ("NVIDIA L4", "sm_89", "L4"),
        ("NVIDIA L40S", "sm_89", "RTX 4090"),  # unknown: the card that stands for its arch, and not the L4
    ],
)
def test_a_card_here_takes_the_bandwidth_of_its_data_sheet(name: str, arch: str, data_sheet: str) -> None:
    spec = spec_of(DeviceProperties(name, arch, "580", 100, 48 * 10**9, 50 * 10**6, 1500.0, 0, 0, 0, 0))
    assert spec.bandwidth == DEVICES[data_sheet].bandwidth
    assert (spec.sms, spec.clock_ghz, spec.l2_mb, spec.memory_gb) == (100, 1.5, 50, 48)
