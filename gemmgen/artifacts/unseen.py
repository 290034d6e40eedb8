"""The lines of a kernel that the emulator does not see, and that are not as gemmgen renders them."""

from __future__ import annotations

from gemmgen.artifacts.folder import kernel_texts
from gemmgen.kernel.again import rendered_again
from gemmgen.kernel.conditionals import Conditional, unlike
from gemmgen.kernel.source import KernelSource
from gemmgen.support.errors import InvalidInput


def unseen(source: KernelSource, arch: str) -> tuple[Conditional, ...]:
    """What stands between `#ifdef __CUDACC__` and `#endif`, say, other than as rendered for its problem and config.

    What is rendered there has twins in the emulator, which the tests of gemmgen hold against a GPU. The launcher of an
    exported kernel is known, too, if it is as it was written.
    """
    return unlike(source.text, _rendered(source, arch))


def _rendered(source: KernelSource, arch: str) -> str:
    try:
        again = rendered_again(source, arch)
        return kernel_texts(again, arch)[f"{again.name}.cu"]
    except InvalidInput:  # a config that this version does not know: nothing of it is rendered
        return ""
