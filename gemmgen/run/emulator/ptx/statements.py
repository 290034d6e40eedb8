"""`asm` in a kernel's text as C++ that does the same, on the same lines.

What is not known becomes an error of the compiler at that line: a static_assert that says what. Text that the compiler
does not see may have anything.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count

from gemmgen.kernel.conditionals import OPAQUE, conditionals
from gemmgen.run.emulator.ptx.arithmetic import TABLE as ARITHMETIC
from gemmgen.run.emulator.ptx.arithmetic import TYPES, WHERE
from gemmgen.run.emulator.ptx.hopper import TABLE as HOPPER
from gemmgen.run.emulator.ptx.memory import TABLE as MEMORY
from gemmgen.run.emulator.ptx.operands import Instruction, UnknownPtx, split_operands

ASM = re.compile(r"(?<![\w.$])(?:asm|__asm__|__asm)\b[\s\\]*((?:volatile|__volatile__|__volatile)\b)?[\s\\]*(?=\()")
STRING = re.compile(r'\s*(?:R"\w*\((.*?)\)\w*"|"((?:\\.|[^"\\])*)")', re.DOTALL)
OPERAND = re.compile(r'\s*(?:\[(\w+)\]\s*)?"([^"]*)"\s*\((.*)\)\s*', re.DOTALL)
ESCAPES = {"n": "\n", "t": "\t", "r": "\n", '"': '"', "\\": "\\", "'": "'"}
REGISTERS = {"h": "uint16_t", "r": "uint32_t", "l": "uint64_t", "f": "uint32_t", "d": "uint64_t"}
LABEL = re.compile(r"([A-Za-z_$%][\w$%=]*)\s*:(?!:)")
BRACE = re.compile(r"(\bnamespace\b[\s\w:]*|\bextern\s+0+\s*)?\{|\}")  # in text without strings
MACRO = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
OUTSIDE = 'static_assert(false, "asm outside of functions: the emulator runs what stands in them alone")'
GUARD = re.compile(r"@(!?)\s*([\w%$]+)\s+")
DECLARED = re.compile(r"\.reg\s+(?:\.v[24]\s+)?\.(\w+)\s+(.*)", re.DOTALL)
INSTRUCTION = re.compile(r"([\w.:]+)\s*(.*)", re.DOTALL)
TABLE: Mapping[str, Callable[[Instruction], str]] = {**ARITHMETIC, **MEMORY, **HOPPER}


def translated(text: str) -> str:
    """`text`, whose `asm` statements are C++; it keeps its lines."""
    if not ASM.search(text):
        return text
    plain = _visible(text)
    outside = _outside(plain)
    pieces, last = [], 0
    for number, found in enumerate(ASM.finditer(plain)):
        end = _closing(plain, found.end())
        if end is None:
            break
        inside = slice(found.end() + 1, end - 1)
        own = text[inside], plain[inside], found[1] is not None, number
        cpp = OUTSIDE if outside(found.start()) else _statement(*own)
        pieces += [text[last : found.start()], cpp, _line_ends(text[found.start() : end])]
        last = end
    return "".join([*pieces, text[last:]])


def _visible(text: str) -> str:
    """`text` without comments, strings and what the host's compiler never sees, its characters in their places."""
    plain = OPAQUE.sub(_blank, text)
    lines = plain.splitlines(keepends=True)
    for one in conditionals(text):
        directives = re.findall(r"^[ \t]*#[ \t]*(\w+)(.*)", one.text, re.MULTILINE)
        if directives[0] == ("ifdef", " __CUDACC__") and not any(word.startswith("el") for word, _ in directives):
            for number in range(one.first - 1, one.last):
                lines[number] = re.sub(r"[^\n]", " ", lines[number])
    return "".join(lines)


def _outside(plain: str) -> Callable[[int], bool]:
    """Whether a place is outside of all functions and macros: in no braces but those of namespaces and `extern "C"`."""
    places, inside, opened = [0], [False], []
    for found in BRACE.finditer(plain):
        if found[0] != "}":
            opened.append(found[1] is None)
        elif opened:
            opened.pop()
        places.append(found.end())
        inside.append(any(opened))
    macros = [found.span() for found in MACRO.finditer(plain)]
    return lambda at: not (inside[bisect_right(places, at) - 1] or any(first <= at < end for first, end in macros))


def _blank(found: re.Match[str]) -> str:
    return re.sub(r"[^\n\\]", " " if found[0].startswith("/") else "0", found[0])


def _closing(plain: str, at: int) -> int | None:
    """Behind the parenthesis that closes the one at `at`."""
    depth = 0
    for place in range(at, len(plain)):
        depth += (plain[place] == "(") - (plain[place] == ")")
        if depth == 0:
            return place + 1
    return None


def _line_ends(text: str) -> str:
    return "".join(re.findall(r"\\?\n", text))


def _statement(text: str, plain: str, volatile: bool, number: int) -> str:
    try:
        return _Asm.read(text.replace("\\\n", " \n"), plain.replace("\\\n", " \n"), volatile, number).cpp()
    except UnknownPtx as why:
        said = json.dumps(f"inline PTX that the emulator does not know: {why}")
        return f"do {{ static_assert(false, {said}); }} while (0)"


@dataclass
class _Operand:
    """One of `asm`'s: how the template names it, its constraint and the C++ expression."""

    name: str
    constraint: str
    expression: str
    is_output: bool

    @property
    def ctype(self) -> str:
        letter = self.constraint.lstrip("=+&")
        if letter in ("n", "i"):
            return f"const {WHERE}Integer"
        if letter not in REGISTERS:
            raise UnknownPtx(f"the constraint {self.constraint!r}")
        return REGISTERS[letter]

    def declared(self, variable: str) -> str:
        if self.ctype.startswith("const"):
            return f"{self.ctype} {variable}{{(long long)({self.expression})}};"
        if self.is_output and not self.constraint.startswith("+"):
            return f"{self.ctype} {variable};"
        return f"{self.ctype} {variable} = {WHERE}take<{self.ctype}>({self.expression});"


@dataclass
class _Asm:
    """An `asm` statement: its template's text and its operands."""

    template: str
    operands: list[_Operand]
    ordered: bool
    number: int
    names: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, text: str, plain: str, volatile: bool, number: int) -> _Asm:
        sections = [text[part] for part in _split(plain, ":")]
        operands = [
            _operand(text, index == 1)
            for index, section in enumerate(sections[1:3], 1)
            for text in _operands_of(section)
        ]
        clobbers = sections[3] if len(sections) > 3 else ""
        return cls(_template(sections[0]), operands, volatile or "memory" in clobbers, number)

    def cpp(self) -> str:
        variables = [f"gemmgen_asm_{index}" for index in range(len(self.operands))]
        for index, (operand, variable) in enumerate(zip(self.operands, variables, strict=True)):
            self.names[f"%{index}"] = variable
            if operand.name:
                self.names[f"%[{operand.name}]"] = variable
        declared = "".join(f"{one.declared(name)} " for one, name in zip(self.operands, variables, strict=True))
        body = _Body(self.template, self.names, self.ordered, f"gemmgen_{self.number}_").cpp()
        given = "".join(
            f" {WHERE}give({one.expression}, {name});"
            for one, name in zip(self.operands, variables, strict=True)
            if one.is_output
        )
        return f"do {{ {declared}{{ {body} }}{given} }} while (0)"


@dataclass
class _Body:
    """The statements of a template. Registers that it declares are variables of a C++ block."""

    template: str
    names: dict[str, str]
    ordered: bool
    prefix: str

    def cpp(self) -> str:
        statements = list(_statements(self.template))
        labels = [text[:-1].strip() for kind, text in statements if kind == "label"]
        declared = "".join(f"__label__ {self._label(each)}; " for each in dict.fromkeys(labels))
        # Declarations come first: a jump may pass none.
        registers = "".join(self._registers(text) for kind, text in statements if kind == "reg")
        return declared + registers + " ".join(self._one(kind, text) for kind, text in statements if kind != "reg")

    def _one(self, kind: str, text: str) -> str:
        if kind == "label":
            return f"{self._label(text[:-1].strip())}:;"
        if kind == "scope":
            return text
        guard = GUARD.match(text)
        if guard is None:
            return self._instruction(text)
        if guard[2] not in self.names:
            raise UnknownPtx(f"the predicate {guard[2]!r}")
        return f"if ({guard[1]}{self.names[guard[2]]}) {{ {self._instruction(text[guard.end() :])} }}"

    def _instruction(self, text: str) -> str:
        found = INSTRUCTION.fullmatch(text.strip())
        if found is None:
            raise UnknownPtx(f"`{text.strip()}`")
        name, rest = found[1], found[2]
        if name in ("bra", "bra.uni"):
            return f"goto {self._label(rest.strip())};"
        one = Instruction(name, split_operands(rest), self.names, self.ordered)
        translate = TABLE.get(name.split(".")[0])
        if translate is None or name.startswith("."):
            raise UnknownPtx(f"`{name}`")
        return translate(one)

    def _registers(self, text: str) -> str:
        found = DECLARED.fullmatch(text)
        if found is None or found[1] not in TYPES:
            raise UnknownPtx(f"`{text}`")
        ctype = "bool" if found[1] == "pred" else f"uint{re.sub('x2$', '', found[1]).lstrip('bfusx')}_t"
        ctype = {"f16x2": "uint32_t", "bf16x2": "uint32_t"}.get(found[1], ctype)
        return "".join(f"{ctype} {self._declare(name)}; " for name in _declared_names(found[2]))

    def _declare(self, name: str) -> str:
        variable = f"{self.prefix}{re.sub(r'[^0-9A-Za-z_]', '_', name)}"
        if self.names.get(name) == variable:
            raise UnknownPtx(f"two registers {name!r}")
        self.names[name] = variable
        return variable

    def _label(self, name: str) -> str:
        return f"{self.prefix}label_{re.sub(r'[^0-9A-Za-z_]', '_', name)}"


def _declared_names(text: str) -> Iterator[str]:
    """`a, %%r<3>` are a, %%r0, %%r1 and %%r2."""
    for name in text.split(","):
        many = re.fullmatch(r"\s*([\w%$]+)<(\d+)>\s*", name)
        if many is None:
            yield name.strip()
        else:
            yield from (f"{many[1]}{number}" for number in range(int(many[2])))


def _statements(template: str) -> Iterator[tuple[str, str]]:
    """Labels, scopes' braces, declarations of registers and instructions, in order, as (kind, text)."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", template, flags=re.DOTALL)
    at = 0
    for _ in count():
        at += len(text[at:]) - len(text[at:].lstrip(" \t\n;"))
        if at >= len(text):
            return
        label = LABEL.match(text, at)
        if text[at] in "{}":
            yield "scope", text[at]
            at += 1
        elif label is not None:
            yield "label", label[0]
            at = label.end()
        else:
            end = text.find(";", at)
            statement = text[at : end if end >= 0 else len(text)].strip()
            yield "reg" if statement.startswith(".reg") else "instruction", statement
            at = end if end >= 0 else len(text)


def _template(text: str) -> str:
    at, parts = 0, []
    while found := STRING.match(text, at):
        parts.append(found[1] if found[1] is not None else _unescaped(found[2]))
        at = found.end()
    if text[at:].strip() or not parts:
        raise UnknownPtx(f"a template that is no string, `{' '.join(text[at:].split())[:40]}`")
    return "".join(parts)


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: ESCAPES.get(found[1], " "), text, flags=re.DOTALL)


def _operands_of(section: str) -> Iterator[str]:
    plain = OPAQUE.sub(_blank, section)
    for part in _split(plain, ","):
        if section[part].strip():
            yield section[part]


def _operand(text: str, is_output: bool) -> _Operand:
    found = OPERAND.fullmatch(text)
    if found is None:
        raise UnknownPtx(f"the operand `{' '.join(text.split())[:40]}`")
    return _Operand(found[1] or "", found[2], " ".join(found[3].split()), is_output)


def _split(plain: str, separator: str) -> list[slice]:
    """Where the parts lie that separators outside of brackets divide."""
    found, depth, start = [], 0, 0
    for at, character in enumerate(plain):
        depth += (character in "([{") - (character in ")]}")
        if character == separator and depth == 0:
            found.append(slice(start, at))
            start = at + 1
    return [*found, slice(start, len(plain))]
