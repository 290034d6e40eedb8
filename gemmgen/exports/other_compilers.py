"""The lines of a `.cu` that a verdict does not cover, because other compilers may read them differently."""

from __future__ import annotations

from gemmgen.exports.certificate_precheck import first_edit, macros_of_launcher
from gemmgen.exports.exported_text import kernel_alone, own_name_in
from gemmgen.exports.folder import kernel_texts
from gemmgen.exports.kernelfile import KernelFile
from gemmgen.kernel.conditionals import OTHERWISE, Conditional, conditionals
from gemmgen.render.rerender import rendered_or_none
from gemmgen.support.errors import TEXT, CandidateFailed, Failure


def hidden_lines(found: KernelFile) -> tuple[Conditional, ...]:
    """Lines of the kernel that other compilers may read differently, and the first edited line of its launcher."""
    alone, text = found.alone.source.text, found.source.text
    before = text[: text.index(alone)].count("\n")
    hidden = [one.moved(before) for one in conditionals(alone)]
    if alone != text and text != (expected := _exported(found, alone)):
        line = first_edit("", text, expected).line
        hidden.append(Conditional(line, line))
    return tuple(hidden)


def _exported(found: KernelFile, alone: str) -> str:
    """The file that `export` writes around the text `alone`; "" for a config that this version does not know."""
    again = rendered_or_none(found.source, found.arch)
    if again is None:
        return ""
    own = own_name_in(found.source.text, again.name)
    whole = kernel_texts(again, found.arch, own)[f"{own or again.name}.cu"]
    return whole.replace(kernel_alone(whole, again.name), alone, 1)


def require_exported_alike(found: KernelFile) -> None:
    """Raise CandidateFailed, unjudged, if an export of the kernel has `hidden_lines`.

    Lines that define macros which the launcher uses count, too.
    """
    source, again = found.source, rendered_or_none(found.source, found.arch)
    texts = kernel_texts(source, found.arch)
    launcher = texts[f"{source.name}.cu"].replace(source.text, "", 1) + texts[f"{source.name}.h"]
    rendered = "" if again is None else again.text
    lines = [*map(str, hidden_lines(found))]
    lines += (f"line {one.line}" for one in macros_of_launcher("", source.text, rendered, launcher, 1))
    if lines:
        raise CandidateFailed(Failure("unjudged", f"{', '.join(lines)} of {source.name}: {OTHERWISE}", TEXT))
