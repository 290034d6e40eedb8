"""Breaks lines of rendered text that are too long: comments go on below, code breaks where a person would break it.

Templates are written for the usual case; names of types, edges and batches make some of their lines longer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

WIDTH = 120
ROOM = 30  # characters of a comment's words beside a label, at least
UNBROKEN = ("// Made by ", "// Config ")  # what is copied or read back as a whole
COMMENT = re.compile(r"( *)// (?=\S)")
# Labels of seven letters have one space behind them.
LABEL = re.compile(r"(// +(?:(?:Cluster|Expects|Split-K|Weights)(?= )|\S.*?(?= {2}))) +(?=\S)")
BRANCH = re.compile(r" *(?:for|if|while) \(")
UNBROKEN_CODE = re.compile(r'"(?:[^"\\]|\\.)*"|(?<=\w)<[^<>()]*>(?= (?:\w+\(|\(&))')  # strings, and a type's arguments
OPERATOR = re.compile(r" (?:\+|\?|:|\|\||&&|\|) ")
OPEN, CLOSE = "([{", ")]}"


def fitted(text: str, width: int = WIDTH) -> str:
    """Return `text` with no line longer than `width`, except for commands and names, which stay whole."""
    if all(len(line) <= width for line in text.split("\n")):
        return text
    made: list[str] = []
    lines = text.split("\n")[::-1]
    while lines:
        line = lines.pop()
        if len(line) <= width or line.startswith(UNBROKEN):
            made.append(line)
        elif line.lstrip().startswith("//"):
            first, rest = _broken_comment(line, width)
            if rest:
                _carry(rest, lines, first)
            (made if len(first) <= width or not rest else lines).append(first)
        else:
            broken = _broken_code(line, width)
            if len(broken) == 1:  # nothing can be done
                made.append(line)
            else:
                lines += broken[::-1]
    return "\n".join(made)


def _broken_comment(line: str, width: int) -> tuple[str, str]:
    """Return (the part that fits, the words behind it); there are no words if the comment cannot be broken."""
    start = len(_hanging(line))
    if start > width - ROOM and (label := LABEL.match(line)):  # no room for words below: it stands alone
        return label[1], line[label.end() :]
    end = max(line.rfind("; ", 0, width) + 1, 0) if line.startswith("//  ") else 0
    if end <= start:
        end = line.rfind(" ", 0, width + 1)
    return (line[:end].rstrip(), line[end:].strip()) if end > start else (line, "")


def _carry(words: str, lines: list[str], first: str) -> None:
    """Put the words that did not fit in front of the paragraph's next line, or on a line of their own."""
    prefix = COMMENT.match(first)
    following = COMMENT.match(lines[-1]) if lines else None
    labelled = LABEL.match(first) or (lines and LABEL.match(lines[-1]))
    if prefix and following and prefix[0] == following[0] and not labelled and not words.endswith((".", ":")):
        lines[-1] = f"{prefix[0]}{words} {lines[-1][following.end() :]}"
    else:
        lines.append(f"{_hanging(first)}{words}")


def _hanging(line: str) -> str:
    """The beginning of a line that continues `line`: below its text if a label precedes that."""
    label = LABEL.match(line) or re.match(r"// {2,}(?=\S)", line)
    prefix = COMMENT.match(line)
    if label and not line.startswith(" "):
        return "//" + " " * (label.end() - 2)
    return prefix[0] if prefix else "// "


def _broken_code(line: str, width: int) -> list[str]:
    """Two or more lines that replace a line of code; [line] if it cannot be broken."""
    indent = " " * (len(line) - len(line.lstrip()))
    masked = UNBROKEN_CODE.sub(lambda found: "s" * len(found[0]), line)
    comment = masked.find("  // ")
    if comment >= 0:
        return [indent + line[comment + 2 :], line[:comment].rstrip()]
    body = _end_of_head(masked) if BRANCH.match(line) else 0
    if body and line[body:].strip() not in ("", "{"):
        return [line[:body], f"{indent}    {line[body:].strip()}"]
    found = [one for one in _places(masked, len(indent)) if len(indent) < one[1] <= width]
    if not found:
        return [line]
    depth = min(one[0] for one in found)
    _, at, column = max((one for one in found if one[0] == depth), key=lambda one: one[1])
    return [line[:at].rstrip(), " " * column + line[at:].lstrip()]


def _end_of_head(line: str) -> int:
    """The index where the head of a loop or a branch ends."""
    depth = 0
    for at, letter in enumerate(line):
        depth += (letter == "(") - (letter == ")")
        if letter == ")" and depth == 0:
            return at + 1
    return 0


def _places(line: str, indent: int) -> Iterator[tuple[int, int, int]]:
    """(depth, where a line may end, column in which the next one begins)."""
    columns = [indent if line.count(")") > line.count("(") else indent + 4]
    for at, letter in enumerate(line):
        if letter in OPEN:
            columns.append(at + 1)
        elif letter in CLOSE and len(columns) > 1:
            columns.pop()
        elif line.startswith(", ", at):
            yield len(columns), at + 1, columns[-1]
        elif line.startswith(" = ", at) and len(columns) == 1:
            yield len(columns) + 1, at + 2, indent + 4
        elif OPERATOR.match(line, at):
            yield len(columns) + 1, at, columns[-1]
