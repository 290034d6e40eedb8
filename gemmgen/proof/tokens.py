"""Edits of CUDA C++ by its tokens: white space, line breaks and comments between them do not count."""

from __future__ import annotations

import re
from array import array
from functools import lru_cache
from typing import NamedTuple

TOKEN = re.compile(
    r"""(?: \s | //[^\n]* | /\*[\s\S]*?\*/ )*                       # what does not count
    ( [A-Za-z_]\w* | \.?\d(?:[eEpP][+-]|[\w.])*                      # names and numbers
    | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)+'                      # strings and characters
    | <<=? | >>=? | \.\.\. | -> | :: | \+\+ | -- | && | \|\| | [-+*/%^&|=!<>]= | \S | \Z )""",
    re.VERBOSE,
)
GAP = "\0"  # around each token, where a text is its tokens alone


class Tokens(NamedTuple):
    """The tokens of a text, as one string with GAP around each, and the first and last position of each."""

    joined: str
    starts: array[int]
    ends: array[int]


def tokens_of(text: str) -> Tokens:
    """The tokens of a text of C++, in order."""
    words, starts, ends = [GAP], array("l"), array("l")
    for match in TOKEN.finditer(text):
        if match[1]:  # else the text ends with what does not count
            words += match[1], GAP
            starts.append(match.start(1))
            ends.append(match.end(1))
    return Tokens("".join(words), starts, ends)


_tokens_of_kernel = lru_cache(maxsize=512)(tokens_of)  # hundreds of edits are of the same kernels


def places_of(old: str, text: str) -> list[tuple[int, int]]:
    """Where the tokens of `old`, at least one, stand in `text`: (start, end) of each place. They do not overlap."""
    sought, tokens = tokens_of(old), _tokens_of_kernel(text)
    places, at = [], tokens.joined.find(sought.joined)
    while at >= 0 and sought.starts:
        first = tokens.joined.count(GAP, 0, at)
        places.append((tokens.starts[first], tokens.ends[first + len(sought.starts) - 1]))
        at = tokens.joined.find(sought.joined, at + len(sought.joined) - 1)
    return places


def exchanged(text: str, old: str, new: str) -> tuple[str, int]:
    """(`text` with `new` in each place of the tokens of `old`, the number of places)."""
    places = places_of(old, text)
    for start, end in reversed(places):
        text = text[:start] + new + text[end:]
    return text, len(places)
