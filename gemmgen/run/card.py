"""The card that kernels are compiled for: the one at hand, or a known one. Nothing runs on it here."""

from __future__ import annotations

from dataclasses import replace

from gemmgen.problem.device import (
    DEFAULT_ARCH,
    DEVICES,
    DeviceSpec,
    arch_meant,
    device_for,
    parse_arch,
    short_name,
    spec_for,
)
from gemmgen.run.gpu.capability import DeviceProperties, arch_here, properties_here


def compile_target(arch: str) -> tuple[str, DeviceSpec]:
    """("sm_90", the card whose limits and rates count) for `--arch` where nothing runs. Raises InvalidInput.

    "auto" is the card at hand, and where there is none the one that stands for DEFAULT_ARCH.
    """
    here = arch_here() if arch == "auto" else None
    if here is not None:
        return here, spec_of(properties_here())
    name = DEFAULT_ARCH if arch == "auto" else arch
    spec = spec_for(name)
    return arch_name(name, spec.arch.name), spec


def arch_name(asked: str, card: str) -> str:
    """What to compile for: "sm_90a" where that was asked for, the card's arch where its name or "auto" was."""
    meant = arch_meant(asked)
    return meant if meant.startswith("sm_") else card


def spec_of(card: DeviceProperties) -> DeviceSpec:
    """What the driver reports of the card, with the data sheet's bandwidth of the one of that name, or of its arch."""
    arch = parse_arch(card.arch)
    named = (spec for spec in DEVICES.values() if spec.is_card(card.name))
    known = next(named, device_for(arch))
    return replace(
        known,
        name=short_name(card.name),
        arch=arch,
        sms=card.sms,
        clock_ghz=card.clock_mhz / 1000,
        l2_mb=card.l2_bytes / 1e6,
        memory_gb=card.memory_bytes / 1e9,
    )
