"""The anchor of a kernel on the page."""

from __future__ import annotations

import re

from gemmgen.exports.kernelfile import KernelFile
from gemmgen.problem.device import device_for


def anchor(kernel: KernelFile) -> str:
    """The kernel's name, with its card's name unless that stands for its architecture: both cards may have the
    kernel."""
    name, device = kernel.source.name, kernel.device
    if device == device_for(kernel.card.arch).name:
        return name
    return f"{name}-{re.sub(r'[^A-Za-z0-9]+', '-', device)}"
