"""The lines of a kernel that the emulator does not see, and that are not as gemmgen renders them."""

from __future__ import annotations

from functools import partial

from gemmgen.artifacts.folder import kernel_texts
from gemmgen.artifacts.wrapped import FOR_HOSTS, own_name_in
from gemmgen.kernel.again import rendered_again
from gemmgen.kernel.conditionals import Conditional, unlike
from gemmgen.kernel.source import KernelSource
from gemmgen.support.errors import InvalidInput


def unseen(source: KernelSource, arch: str) -> tuple[Conditional, ...]:
    """What stands between `#ifdef __CUDACC__` and `#endif`, say, other than as rendered for its problem and config.

    What is rendered there has twins in the emulator, which the tests of gemmgen hold against a GPU. The launcher of an
    exported kernel is known, too, if it is as it was written.
    """
    rendered = _rendered(source, arch)
    return unlike(*map(partial(_opened, around=rendered), (source.text, rendered)))


def _opened(text: str, around: str) -> str:
    """The text without the `#if` around all of it that leaves it to some architectures, where that is as in `around`.

    No compiler for a host is stopped by it. Line numbers stay.
    """
    first, tail = around.partition("\n")[0], around[around.rfind("\n#endif  // __CUDACC__") :]
    begins = first.startswith(FOR_HOSTS) and text.startswith(f"{first}\n")
    if not begins or not text.endswith(tail):
        return text
    return text[len(first) : -len(tail)] + tail[: tail.index("\n", 1)]


def _rendered(source: KernelSource, arch: str) -> str:
    try:
        again = rendered_again(source, arch)
        own = own_name_in(source.text, again.name)
        return kernel_texts(again, arch, own)[f"{own or again.name}.cu"]
    except InvalidInput:  # a config that this version does not know: nothing of it is rendered
        return ""
