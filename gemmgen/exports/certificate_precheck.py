"""Checks of a certificate before anything runs: claims that certify nothing, and edited files.

A certificate is JSON beside the files, and whoever changes one can change the other: equal hashes show that they belong
together, not that either is true.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gemmgen.kernel.conditionals import directives
from gemmgen.verification.determinism import RUNS


@dataclass(frozen=True)
class Unmet:
    """A claim of a certificate that differs from what the certificate of a right kernel must claim."""

    claim: str
    certified: Any
    required: Any


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


def unmet_claims(verification: Mapping[str, Any], executor: str, examples: int, seed: int) -> Iterator[Unmet]:
    """Yield the claims about `verify` on `executor` that cannot hold for a kernel that passed.

    examples, seed  the numbers that the certificate says were requested
    """
    determinism = verification.get("determinism")
    bits = determinism if isinstance(determinism, Mapping) else {}
    required = {
        "passed": (verification.get("passed"), True),
        "failure": (verification.get("failure"), None),
        "executor": (verification.get("executor"), executor),
        "seed": (verification.get("seed"), seed),
        "determinism.same_bits": (bits.get("same_bits"), True),
        "determinism.difference": (bits.get("difference"), None),
    }
    for claim, (certified, value) in required.items():
        if type(certified) is not type(value) or certified != value:  # 1 is not True
            yield Unmet(claim, certified, value)
    for claim, certified, least, most in (
        ("examples", verification.get("examples"), 1, examples),
        ("determinism.runs", bits.get("runs"), RUNS, None),
    ):
        if type(certified) is not int or certified < least or (most is not None and certified > most):
            yield Unmet(claim, certified, f"{least} or more" if most is None else f"{least} to {most}, as was asked")


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
