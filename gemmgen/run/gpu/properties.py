"""What the driver says about the card."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DeviceProperties:
    """
    arch          "sm_90", from the compute capability
    driver        version of the installed driver ("580.159.04"), or of the CUDA that it supports ("CUDA 13.0")
    memory_bytes  device memory
    l2_bytes      L2 cache
    clock_mhz     highest SM clock
    uuid          "GPU-...", which no other card has; "" where nobody asked
    """

    name: str
    arch: str
    driver: str
    sms: int
    memory_bytes: int
    l2_bytes: int
    clock_mhz: float
    shared_bytes_per_block: int
    shared_bytes_per_sm: int
    registers_per_sm: int
    threads_per_sm: int
    uuid: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.arch}, {self.sms} SMs), driver {self.driver}"
