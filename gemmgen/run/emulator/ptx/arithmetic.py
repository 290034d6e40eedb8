"""PTX instructions whose result is a function of their operands: arithmetic, bits, comparisons, conversions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gemmgen.problem.mma import MMAS
from gemmgen.run.emulator.ptx.operands import Instruction, joined

TYPES = {
    **{f"{kind}{bits}": f"uint{bits}_t" for kind in "ub" for bits in (8, 16, 32, 64)},
    **{f"s{bits}": f"int{bits}_t" for bits in (8, 16, 32, 64)},
    "f32": "float",
    "f64": "double",
    "f16": "::gemmgen::ptx::Half",
    "bf16": "::gemmgen::ptx::Brain",
    "f16x2": "::gemmgen::ptx::Halves",
    "bf16x2": "::gemmgen::ptx::Brains",
    "pred": "bool",
}
INTEGERS = frozenset(f"{kind}{bits}" for kind in "us" for bits in (16, 32, 64))
BITS = frozenset(("b16", "b32", "b64", "pred"))
REAL, SMALL = frozenset(("f32", "f64")), frozenset(("f16", "f16x2", "bf16", "bf16x2"))
SINGLE = frozenset(("f32",))
WORDS = frozenset(("b32", "b64"))
OF_FLOATS = frozenset(("rn", "rz", "rm", "rp", "ftz", "sat"))
WHERE = "::gemmgen::ptx::"


@dataclass(frozen=True)
class Operation:
    """What computes it in C++, of which types, with which parts of its name, and the types of its sources.

    A source "T" is of the instruction's type; "wide" has the size that the C++ function gives it.
    """

    function: str
    types: frozenset[str]
    sources: tuple[str, ...]
    modifiers: frozenset[str] = frozenset()


def _same(count: int) -> tuple[str, ...]:
    return ("T",) * count


OPERATIONS: dict[str, Operation] = {
    "add": Operation("add", INTEGERS | REAL | SMALL, _same(2), OF_FLOATS),
    "sub": Operation("sub", INTEGERS | REAL | SMALL, _same(2), OF_FLOATS),
    "mul": Operation("mul", INTEGERS | REAL | SMALL, _same(2), OF_FLOATS | {"lo", "hi", "wide"}),
    "mad": Operation("mad", INTEGERS | REAL, ("T", "T", "wide"), OF_FLOATS | {"lo", "hi", "wide"}),
    "fma": Operation("fma_", REAL | SMALL, _same(3), OF_FLOATS | {"relu"}),
    "mul24": Operation("mul24", frozenset(("u32", "s32")), _same(2), frozenset(("lo", "hi"))),
    "sad": Operation("sad", INTEGERS, _same(3)),
    "div": Operation("div", INTEGERS | REAL, _same(2), frozenset(("rn", "approx", "full", "ftz"))),
    "rem": Operation("rem", INTEGERS, _same(2)),
    "neg": Operation("neg", INTEGERS | REAL | SMALL, _same(1), frozenset(("ftz",))),
    "abs": Operation("abs", INTEGERS | REAL | SMALL, _same(1), frozenset(("ftz",))),
    "min": Operation("min", INTEGERS | REAL | SMALL, _same(2), frozenset(("ftz", "NaN"))),
    "max": Operation("max", INTEGERS | REAL | SMALL, _same(2), frozenset(("ftz", "NaN"))),
    "and": Operation("and_", BITS, _same(2)),
    "or": Operation("or_", BITS, _same(2)),
    "xor": Operation("xor_", BITS, _same(2)),
    "not": Operation("not_", BITS, _same(1)),
    "cnot": Operation("cnot", BITS, _same(1)),
    "shl": Operation("shl", BITS - {"pred"}, ("T", "u32")),
    "shr": Operation("shr", INTEGERS | BITS - {"pred"}, ("T", "u32")),
    "bfe": Operation("bfe", INTEGERS - {"u16", "s16"}, ("T", "u32", "u32")),
    "bfi": Operation("bfi", WORDS, ("T", "T", "u32", "u32")),
    "bfind": Operation("bfind", INTEGERS - {"u16", "s16"}, _same(1)),
    "popc": Operation("popc", WORDS, _same(1)),
    "clz": Operation("clz", WORDS, _same(1)),
    "brev": Operation("brev", WORDS, _same(1)),
    "prmt": Operation("prmt", frozenset(("b32",)), _same(3)),
    "lop3": Operation("lop3", frozenset(("b32",)), ("T", "T", "T", "u32")),
    "selp": Operation("selp", INTEGERS | BITS | REAL, ("T", "T", "pred")),
    "rcp": Operation("rcp", REAL, _same(1), frozenset(("rn", "approx", "ftz"))),
    "sqrt": Operation("sqrt_", REAL, _same(1), frozenset(("rn", "approx", "ftz"))),
    "rsqrt": Operation("rsqrt_", REAL, _same(1), frozenset(("approx", "ftz"))),
    "ex2": Operation("ex2", SINGLE, _same(1), frozenset(("approx", "ftz"))),
    "lg2": Operation("lg2", SINGLE, _same(1), frozenset(("approx", "ftz"))),
    "sin": Operation("sin_", SINGLE, _same(1), frozenset(("approx", "ftz"))),
    "cos": Operation("cos_", SINGLE, _same(1), frozenset(("approx", "ftz"))),
    "tanh": Operation("tanh_", SINGLE, _same(1), frozenset(("approx",))),
    "copysign": Operation("copysign_", REAL, _same(2)),
}
ROUNDED_TO_NEAREST = frozenset(("f64", *SMALL))  # of other roundings the emulator has f32's
COMPARISONS = {
    **{name: name.title() for name in ("eq", "ne", "lt", "le", "gt", "ge", "num", "nan")},
    **{f"{name}u": f"Or<{WHERE}{name.title()}>" for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    **dict(zip(("lo", "ls", "hi", "hs"), ("Lt", "Le", "Gt", "Ge"), strict=True)),
}
TO_WHOLE = {"rni": "rn", "rzi": "rz", "rmi": "rm", "rpi": "rp"}
PAIRS_OF_8 = ("e4m3x2", "e5m2x2")


def operation(one: Instruction) -> str:
    """A row of OPERATIONS."""
    head, *modifiers, label = one.parts
    row = OPERATIONS[head]
    one.require(label in row.types, f"the type .{label}")
    for modifier in modifiers:
        one.require(modifier in row.modifiers, f".{modifier}")
    one.require(not (label in ROUNDED_TO_NEAREST and {"rz", "rm", "rp"} & {*modifiers}), "the rounding")
    one.count(len(row.sources) + 1)
    target, *sources = one.operands
    values = [_source(one, kind, label, text) for kind, text in zip(row.sources, sources, strict=True)]
    how = _how(modifiers)
    if "wide" in row.sources and "wide" in modifiers:
        result = f"decltype({WHERE}mul<{TYPES[label]}, {how}>({values[0]}, {values[1]}))"
        values[2] = f"{WHERE}as<{result}>({one.value(sources[2])})"
    elif "wide" in row.sources:
        values[2] = f"{WHERE}as<{TYPES[label]}>({one.value(sources[2])})"
    return _put(one, target, f"{WHERE}{row.function}<{TYPES[label]}, {how}>({joined(values)})")


def move(one: Instruction) -> str:
    """mov: of registers, and between one and its parts."""
    one.count(2)
    target, source = one.operands
    label = one.parts[-1]
    one.require(len(one.parts) == 2 and label in TYPES, f"the type .{label}")
    if target.startswith("{"):
        low, high = _two(one, target)
        return f"{WHERE}split({one.value(source)}, {one.register(low)}, {one.register(high)});"
    if source.startswith("{"):
        low, high = _two(one, source)
        return f"{WHERE}join({one.register(target)}, {one.value(low)}, {one.value(high)});"
    return _put(one, target, f"{WHERE}as<{TYPES[label]}>({one.value(source)})")


def _two(one: Instruction, text: str) -> list[str]:
    parts = one.vector(text)
    one.require(len(parts) == 2, f"{len(parts)} parts")
    return parts


def compared(one: Instruction) -> str:
    """setp and its forms with a second predicate or one that is combined."""
    _, name, *modifiers, label = one.parts
    one.require(name in COMPARISONS and label in TYPES, f".{name}.{label}")
    combined = next((each for each in modifiers if each in ("and", "or", "xor")), None)
    how = _how([each for each in modifiers if each != combined])
    one.count(3 if combined is None else 4)
    target, a, b = one.operands[:3]
    values = joined([_source(one, "T", label, a), _source(one, "T", label, b)])
    outcome = f"{WHERE}compare<{WHERE}{COMPARISONS[name]}, {TYPES[label]}, {how}>({values})"
    true, _, false = target.partition("|")
    sign = {"and": "&", "or": "|", "xor": "^"}.get(combined or "")
    rest = f" {sign} ({one.value(one.operands[3])})" if sign else ""
    assigned = [f"{one.register(true.strip())} = (holds{rest});"] if true.strip() != "_" else []
    assigned += [f"{one.register(false.strip())} = ((!holds){rest});"] if false.strip() not in ("", "_") else []
    return f"{{ const bool holds = {outcome}; {' '.join(assigned)} }}"


def converted(one: Instruction) -> str:
    """cvt."""
    _, *modifiers, to, label = one.parts
    target, *sources = one.operands
    known = {*OF_FLOATS, *TO_WHOLE, "rna", "satfinite", "relu"}
    for modifier in modifiers:
        one.require(modifier in known, f".{modifier}")
    special = _special_conversion(one, to, label, modifiers, sources)
    if special is not None:
        return _put(one, target, special)
    one.require(to in TYPES and label in TYPES and "satfinite" not in modifiers, f"the types .{to}.{label}")
    one.require(to not in SMALL or not {"rm", "rp", "rzi", "rni", "rmi", "rpi"} & {*modifiers}, "the rounding")
    one.count(2)
    how = _how([TO_WHOLE.get(each, each) for each in modifiers], whole=any(each in TO_WHOLE for each in modifiers))
    value = f"{WHERE}low_as<{TYPES[label]}>({one.value(sources[0])})"
    return f"{WHERE}put_wide({one.register(target)}, {WHERE}cvt<{TYPES[to]}, {TYPES[label]}, {how}>({value}));"


def _special_conversion(one: Instruction, to: str, label: str, modifiers: list[str], sources: list[str]) -> str | None:
    """Those to tf32, to two numbers at once, and from two of 8 bits."""
    floats = [f"{WHERE}as<float>({one.value(source)})" for source in sources] if label == "f32" else []
    if to == "tf32" and label == "f32":
        one.require(modifiers == ["rna"], "the rounding")
        return f"{WHERE}cvt_tf32({floats[0]})"
    if to in ("f16x2", "bf16x2") and label == "f32":
        one.count(3)
        return f"{WHERE}cvt_pair<{TYPES[to]}, {_how(modifiers)}>({joined(floats)})"
    if to in PAIRS_OF_8 and label == "f32":
        one.count(3)
        one.require(sorted(modifiers) == ["rn", "satfinite"], "the rounding")
        return f"{WHERE}cvt_{to}({joined(floats)})"
    if to == "f16x2" and label in PAIRS_OF_8:
        one.require(modifiers == ["rn"], "the rounding")
        return f"{WHERE}halves_of_{label}({WHERE}as<uint16_t>({one.value(sources[0])}))"
    return None


def lop3(one: Instruction) -> str:
    one.require(one.name == "lop3.b32", "a part")
    return operation(one)


def chosen_by_sign(one: Instruction) -> str:
    """slct, by the sign of an integer."""
    parts = one.parts
    one.require(len(parts) == 3 and parts[1] in TYPES and parts[2] == "s32", "the types")
    one.count(4)
    target, *sources = one.operands
    kinds = parts[1], parts[1], "s32"
    values = [_source(one, "T", kind, text) for kind, text in zip(kinds, sources, strict=True)]
    return _put(one, target, f"{WHERE}slct<{TYPES[parts[1]]}, 0>({joined(values)})")


def funnel(one: Instruction) -> str:
    """shf: the upper or the lower word of two that are shifted."""
    parts = one.parts
    one.require(len(parts) == 4 and parts[1] in "lr" and parts[2] in ("wrap", "clamp") and parts[3] == "b32", "a part")
    one.count(4)
    target, *sources = one.operands
    values = joined([_source(one, "u32", "b32", text) for text in sources])
    return _put(one, target, f"{WHERE}shf_{parts[1]}<uint32_t, {_how(parts[2:3])}>({values})")


def dot_product(one: Instruction) -> str:
    _, *labels = one.parts
    one.require(len(labels) == 2 and {*labels} <= {"u32", "s32"}, "the types")
    one.count(4)
    target, *sources = one.operands
    parts = joined(["int8_t" if label == "s32" else "uint8_t" for label in labels])
    values = joined([_source(one, "u32", "b32", text) for text in sources])
    return _put(one, target, f"{WHERE}dp4a<{parts}>({values})")


def matrices(one: Instruction) -> str:
    """mma.sync: the twin that multiplies matrices of this shape and these types."""
    found = next((mma for mma in MMAS.values() if mma.ptx == one.name), None)
    one.require(found is not None, "the shape or types")
    assert found is not None
    one.count(4)
    d, a, b, c = (one.vector(text) for text in one.operands)
    counts = found.c_registers, found.a_registers, found.b_registers, found.c_registers
    one.require((len(d), len(a), len(b), len(c)) == counts, "so many registers")
    of = {"d": (found.c_type, c), "a": (found.a_type, a), "b": (found.a_type, b)}
    declared = "".join(
        f"{ctype} {name}[] = {{{joined([f'{WHERE}as<{ctype}>({one.value(text)})' for text in texts])}}}; "
        for name, (ctype, texts) in of.items()
    )
    given = "".join(f" {WHERE}put({one.register(text)}, d[{i}]);" for i, text in enumerate(d))
    return f"{{ {declared}{found.function}(d, a, b, __LINE__);{given} }}"


def _source(one: Instruction, kind: str, label: str, text: str) -> str:
    ctype = TYPES[label if kind in ("T", "wide") else kind]
    return f"{WHERE}as<{ctype}>({one.value(text)})"


def _put(one: Instruction, target: str, value: str) -> str:
    return f"(void)({value});" if target == "_" else f"{WHERE}put({one.register(target)}, {value});"


def _how(modifiers: list[str], whole: bool = False) -> str:
    names = {"NaN": "NANS"}
    words = [WHERE + names.get(each, each.upper()) for each in modifiers if each != "satfinite"]
    return "unsigned(" + " | ".join([*words, *([f"{WHERE}INTEGRAL"] if whole else [])] or ["0"]) + ")"


TABLE: dict[str, Callable[[Instruction], str]] = {
    **dict.fromkeys(OPERATIONS, operation),
    "mov": move,
    "setp": compared,
    "cvt": converted,
    "lop3": lop3,
    "slct": chosen_by_sign,
    "shf": funnel,
    "dp4a": dot_product,
    "mma": matrices,
}
