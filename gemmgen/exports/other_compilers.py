"""Files that were edited, and the lines of a `.cu` that a verdict does not cover, because other compilers may read them
differently."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gemmgen.exports.exported_text import kernel_alone, own_name_in
from gemmgen.exports.folder import kernel_texts
from gemmgen.exports.kernelfile import KernelFile
from gemmgen.kernel.conditionals import OTHERWISE, Conditional, conditionals, directives
from gemmgen.render.rerender import rendered_or_none
from gemmgen.support.errors import TEXT, CandidateFailed, Failure


@dataclass(frozen=True)
class Edit:
    """The first line in which a file differs from what this version of gemmgen renders; None for a text that has
    ended.

    line  line number from 1; 0 if the text is the same, or none is rendered
    """

    file: str
    line: int
    stands: str | None
    rendered: str | None


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


def edits(found: Mapping[str, bytes | None], rendered: Mapping[str, str]) -> Iterator[Edit]:
    """Yield the files of `rendered` that differ in `found`."""
    for file, text in rendered.items():
        data = found.get(file)
        if data != text.encode():
            yield first_edit(file, None if data is None else data.decode(errors="replace"), text)


def first_edit(file: str, stands: str | None, rendered: str, first: int = 1) -> Edit:
    """The first difference between a text, which begins in line `first` of the file, and another."""
    pairs = itertools.zip_longest((stands or "").splitlines(), rendered.splitlines())
    for line, (one, other) in enumerate(pairs, first):
        if one != other:
            return Edit(file, line, one, other)
    return Edit(file, line, one, other)  # line ends alone


def macros_of_launcher(file: str, text: str, rendered: str, launcher: str, first: int) -> Iterator[Edit]:
    """Yield lines of a kernel's text that are not in `rendered` and define macros for words of the `launcher` behind
    it.

    first  the text's first line in the file
    """
    known, words = {rest for _, _, rest in directives(rendered)}, set(re.findall(r"\w+", launcher))
    for line, word, rest in directives(text):
        macro = re.search(r"\w+", rest)
        if word == "define" and macro and macro[0] in words and rest not in known:
            yield Edit(file, first + line - 1, f"#{word}{rest}".rstrip(), None)
