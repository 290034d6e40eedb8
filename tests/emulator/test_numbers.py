"""The interpreter's arithmetic is that of the PTX ISA: compared with numpy, ml_dtypes and exact fractions."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from builds import built

import gemmgen
from gemmgen.run.emulator.compiler import HostCompiler
from gemmgen.support.errors import CandidateFailed

NATIVE = Path(gemmgen.__file__).parent / "run" / "emulator" / "native"
FLAGS = (
    "-std=c++20",
    "-O2",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-shared",
    "-fPIC",
    "-Werror",
    "-Wall",
    "-Wextra",
)
TYPES = {
    **{f"{kind}{bits}": f"{'' if kind == 's' else 'u'}int{bits}_t" for kind in "us" for bits in (8, 16, 32, 64)},
    "f32": "float",
    "f64": "double",
    "f16": "F16",
    "bf16": "BF16",
    "f16x2": "F16x2",
    "bf16x2": "BF16x2",
}
STORED = {
    **{
        f"{kind}{bits}": np.dtype(f"{'i' if kind == 's' else 'u'}{bits // 8}")
        for kind in "us"
        for bits in (8, 16, 32, 64)
    },
    "f32": np.dtype("f4"),
    "f64": np.dtype("f8"),
    "f16": np.dtype("u2"),
    "bf16": np.dtype("u2"),
    "f16x2": np.dtype("u4"),
    "bf16x2": np.dtype("u4"),
}
WAYS = ("RN", "RZ", "RM", "RP")
FORMATS = {"f32": (24, -126, 127), "f64": (53, -1022, 1023), "f16": (11, -14, 15), "bf16": (8, -126, 127)}
FINFO: Any = ml_dtypes.finfo
APPROXIMATED = ("rcp", "sqrt", "rsqrt", "exp2", "log2", "sin", "cos", "tanh")
Array = npt.NDArray[Any]
Call = Callable[..., Array]
Table = dict[str, tuple[str, tuple[str, ...], str]]

INTEGERS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
REALS = ("f32", "f64")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
CODES: dict[str, tuple[Any, float, int]] = {
    "E4M3": (ml_dtypes.float8_e4m3fn, 448, 8),
    "E5M2": (ml_dtypes.float8_e5m2, 57344, 8),
    "E2M3": (ml_dtypes.float6_e2m3fn, 7.5, 8),
    "E3M2": (ml_dtypes.float6_e3m2fn, 28, 8),
    "E2M1": (ml_dtypes.float4_e2m1fn, 6, 4),
}
MODES = ("bytes", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16")


def reals() -> Table:
    """Name, type of the result, types of x, y and z, and the C++ expression."""
    made: Table = {}
    for t, way in product(REALS, WAYS):
        for name in ("add", "sub", "mul", "div"):
            made[f"{name}_{way}_{t}"] = (t, (t, t), f"{name}<{way}>(x, y)")
        made[f"fma_{way}_{t}"] = (t, (t, t, t), f"fma<{way}>(x, y, z)")
        made[f"sqrt_{way}_{t}"] = (t, (t,), f"sqrt<{way}>(x)")
    return made


def small() -> Table:
    """Floats of 16 bits."""
    made: Table = {}
    for t in ("f16", "bf16"):
        for name in ("add", "sub", "mul"):
            made[f"{name}_{t}"] = (t, (t, t), f"{name}(x, y)")
        made[f"fma_{t}"] = (t, (t, t, t), "fma(x, y, z)")
        made[f"fma_relu_{t}"] = (t, (t, t, t), "fma<RELU>(x, y, z)")
        made[f"fma_{t}x2"] = (f"{t}x2", (f"{t}x2",) * 3, "fma(x, y, z)")
        made[f"exp2_{t}"] = (t, (t, "u64"), "exp2_approximate(x, Wobble{y})")
        made[f"tanh_{t}"] = (t, (t, "u64"), "tanh_approximate(x, Wobble{y})")
        for way in WAYS:
            made[f"cvt_{way}_{t}_f32"] = (t, ("f32",), f"cvt<{TYPES[t]}, float, {way}>(x)")
            made[f"cvt_{way}_{t}_f64"] = (t, ("f64",), f"cvt<{TYPES[t]}, double, {way}>(x)")
        made[f"cvt_satfinite_{t}_f32"] = (t, ("f32",), f"cvt<{TYPES[t]}, float, SATFINITE | RELU>(x)")
        made[f"cvt_f32_{t}"] = ("f32", (t,), f"cvt<float, {TYPES[t]}>(x)")
        made[f"cvt_{t}x2"] = (f"{t}x2", ("f32", "f32"), f"cvt_{t}x2(x, y)")
        made[f"cvt_{t}_s64"] = (t, ("s64",), f"cvt<{TYPES[t]}, int64_t, RN>(x)")
    made["add_ftz_f16"] = ("f16", ("f16", "f16"), "add<FTZ | SAT>(x, y)")
    return made


def extremes() -> Table:
    """What compares floats."""
    made: Table = {}
    for t in ("f32", "f64", "f16", "bf16"):
        for name in ("min", "max"):
            made[f"{name}_{t}"] = (t, (t, t), f"{name}(x, y)")
            made[f"{name}_nan_{t}"] = (t, (t, t), f"{name}<NANS>(x, y)")
            made[f"{name}_xorsign_{t}"] = (t, (t, t), f"{name}<ABSOLUTE | XORSIGN>(x, y)")
        made[f"copysign_{t}"] = (t, (t, t), "copysign(x, y)")
        made[f"compare_{t}"] = (
            "u32",
            (t, t),
            " | ".join(f"uint32_t(compare<Comparison::{c}>(x, y)) << {i}" for i, c in enumerate(COMPARISONS)),
        )
    made["add_ftz_sat_f32"] = ("f32", ("f32", "f32"), "add<FTZ | SAT>(x, y)")
    made["testp"] = (
        "u32",
        ("f32",),
        " | ".join(f"uint32_t(testp<Property::{p}>(x)) << {i}" for i, p in enumerate(PROPERTIES)),
    )
    return made


def conversions() -> Table:
    """cvt between single numbers."""
    made: Table = {}
    for way in WAYS:
        made[f"cvt_{way}_f32_f64"] = ("f32", ("f64",), f"cvt<float, double, {way}>(x)")
        for t in ("u32", "s64", "u64"):
            made[f"cvt_{way}_f32_{t}"] = ("f32", (t,), f"cvt<float, {TYPES[t]}, {way}>(x)")
        made[f"cvt_{way}_f64_s64"] = ("f64", ("s64",), f"cvt<double, int64_t, {way}>(x)")
        made[f"cvt_{way}_integral"] = ("f32", ("f32",), f"cvt<float, float, INTEGRAL | {way}>(x)")
        for t, real in product(INTEGERS, REALS):
            made[f"cvt_{way}_{t}_{real}"] = (t, (real,), f"cvt<{TYPES[t]}, {TYPES[real]}, INTEGRAL | {way}>(x)")
    for to, source in product(INTEGERS, INTEGERS):
        made[f"cvt_sat_{to}_{source}"] = (to, (source,), f"cvt<{TYPES[to]}, {TYPES[source]}, SAT>(x)")
    for way in ("RN", "RZ", "RNA"):
        made[f"tf32_{way}"] = ("u32", ("f32",), f"cvt_tf32<{way}>(x)")
    return made


def codes() -> Table:
    """cvt of codes below 16 bits."""
    made: Table = {}
    for code in CODES:
        made[f"to_{code}"] = ("u16", ("f32", "f32"), f"cvt_codes<{code}>(x, y)")
        made[f"to_{code}_f16x2"] = ("u16", ("f16x2",), f"cvt_codes<{code}, RELU>(x)")
        made[f"from_{code}"] = ("f16x2", ("u16",), f"cvt_from_codes<{code}>(x)")
    made["to_UE8M0"] = ("u16", ("f32", "f32"), "cvt_ue8m0x2<RP>(x, y)")
    made["from_UE8M0"] = ("bf16x2", ("u16",), "cvt_from_ue8m0x2(x)")
    return made


def integers() -> Table:
    """Integers of 32 and 64 bits."""
    made: Table = {}
    for t in ("u32", "s32", "u64", "s64"):
        for name in ("mul_hi", "div", "rem", "min", "max"):
            made[f"{name}_{t}"] = (t, (t, t), f"{name}(x, y)")
        for name in ("shl", "shr"):
            made[f"{name}_{t}"] = (t, (t, "u32"), f"{name}(x, y)")
        made[f"sad_{t}"] = (t, (t, t, t), "sad(x, y, z)")
        made[f"bfe_{t}"] = (t, (t, "u32", "u32"), "bfe(x, y, z)")
        made[f"bfi_{t}"] = (t, (t, "u32", "u32"), f"bfi(x, {TYPES[t]}(0x5A5A5A5AC3C3C3C3), y, z)")
        made[f"bfind_{t}"] = ("u32", (t,), "bfind(x)")
        made[f"shiftamt_{t}"] = ("u32", (t,), "bfind<true>(x)")
        made[f"bits_{t}"] = ("u32", (t,), "popc(x) << 8 | clz(x)")
        made[f"brev_{t}"] = (t, (t,), "brev(x)")
    return made


def words() -> Table:
    """Words of 32 bits."""
    made: Table = {}
    for t in ("u32", "s32"):
        for part in ("lo", "hi"):
            made[f"mul24_{part}_{t}"] = (t, (t, t), f"mul24_{part}(x, y)")
        for wrap in ("true", "false"):
            made[f"szext_{wrap}_{t}"] = (t, (t, "u32"), f"szext<{wrap}>(x, y)")
    for wrap in ("true", "false"):
        made[f"bmsk_{wrap}"] = ("u32", ("u32", "u32"), f"bmsk<{wrap}>(x, y)")
        for side in "lr":
            made[f"shf_{side}_{wrap}"] = ("u32", ("u32", "u32", "u32"), f"shf_{side}<{wrap}>(x, y, z)")
    for mode in MODES:
        made[f"prmt_{mode}"] = ("u32", ("u32", "u32", "u32"), f"prmt<Permute::{mode}>(x, y, z)")
    made["lop3"] = ("u32", ("u32", "u32", "u32"), "lop3(x, y, x ^ y ^ 0x12345678, z)")
    made["add_sat"] = ("s32", ("s32", "s32"), "add_sat(x, y)")
    made["sub_sat"] = ("s32", ("s32", "s32"), "sub_sat(x, y)")
    for t in ("u32", "u64"):
        made[f"add_carry_{t}"] = (t, (t, t, t), "add_carry(x, y, z & 1).value * 2 + add_carry(x, y, z & 1).carry")
        made[f"sub_borrow_{t}"] = (t, (t, t, t), "sub_borrow(x, y, z & 1).value * 2 + sub_borrow(x, y, z & 1).carry")
    return made


def dot_products() -> Table:
    """dp4a and dp2a."""
    made: Table = {}
    for a, b in product(("u", "s"), repeat=2):
        types = f"{TYPES[a + '8']}, {TYPES[b + '8']}"
        made[f"dp4a_{a}{b}"] = ("u32", ("u32", "u32", "u32"), f"dp4a<{types}>(x, y, z)")
        made[f"dp2a_{a}{b}"] = ("u32", ("u32", "u32", "u32"), f"dp2a<{types}, true>(x, y, z)")
    return made


def approximations() -> Table:
    """What a seed moves."""
    made: Table = {}
    for name in APPROXIMATED:
        made[f"{name}_approximate"] = ("f32", ("f32", "u64"), f"{name}_approximate(x, Wobble{{y}})")
    for name in ("div_approximate", "div_full"):
        made[name] = ("f32", ("f32", "f32", "u64"), f"{name}(x, y, Wobble{{z}})")
    made["exp2_ftz"] = ("f32", ("f32", "u64"), "exp2_approximate<FTZ>(x, Wobble{y})")
    for name in ("rcp", "rsqrt"):
        made[f"{name}_ftz_f64"] = ("f64", ("f64", "u64"), f"{name}_approximate_ftz(x, Wobble{{y}})")
    return made


PROPERTIES = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")
TABLE = (
    reals() | small() | extremes() | conversions() | codes() | integers() | words() | dot_products() | approximations()
)


def source(names: Iterable[str]) -> str:
    lines = ['#include "approximations.hpp"', "namespace gemmgen::numbers {"]
    for name in names:
        result, given, expression = TABLE[name]
        types = [*given, *["u8"] * (3 - len(given))]
        pointers = ", ".join(f"const {TYPES[t]}* {p}" for t, p in zip(types, "abc", strict=True))
        named = " ".join(f"const auto {v} = {p}[i];" for v, p, _ in zip("xyz", "abc", given, strict=False))
        unused = " ".join(f"(void){p};" for p in "abc"[len(given) :])
        lines.append(
            f'extern "C" void {name}({pointers}, {TYPES[result]}* d, long n) '
            f"{{ {unused} for (long i = 0; i < n; ++i) {{ {named} d[i] = {expression}; }} }}"
        )
    return "\n".join([*lines, "}"])


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """numpy may meet NaN and infinity."""
    with np.errstate(all="ignore"):
        yield


@pytest.fixture(scope="module")
def call(tmp_path_factory: pytest.TempPathFactory) -> Call:
    """call("add_RZ_f32", x, y): that function of arrays."""
    return compiled(tmp_path_factory.mktemp("numbers"), TABLE, "-march=native")


def compiled(folder: Path, names: Iterable[str], flag: str) -> Call:
    try:
        compiler = HostCompiler.find()
    except CandidateFailed as error:
        pytest.skip(f"no C++ compiler: {error}")
    command = [*compiler.command, *FLAGS, flag, f"-I{NATIVE}", "-x", "c++", "-", "-o", f"{folder}/numbers.so"]
    done = built(command, folder, source(names))
    assert done.returncode == 0, done.stderr
    library = ctypes.CDLL(f"{folder}/numbers.so")

    def run(name: str, *given: npt.ArrayLike) -> Array:
        result, types, _ = TABLE[name]
        shape = np.broadcast_shapes(*(np.shape(array) for array in given))
        stored = [as_stored(array, STORED[t]) for array, t in zip(given, types, strict=True)]
        arrays = [np.ascontiguousarray(np.broadcast_to(array, shape)) for array in stored]
        made = np.empty(shape, STORED[result])
        pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (*arrays, *[made] * (3 - len(arrays)), made)]
        getattr(library, name)(*pointers, ctypes.c_long(made.size))
        return made

    return run


def as_stored(array: npt.ArrayLike, dtype: np.dtype[np.generic]) -> Array:
    """`array` as `dtype`: numbers of 16 bits by their bits."""
    array = np.asarray(array)
    return (
        array
        if array.dtype == dtype
        else array.view(dtype)
        if array.dtype.kind in "fV" and dtype.kind == "u"
        else array.astype(dtype)
    )


def bits_of(values: Array) -> Array:
    return values.view(f"u{values.dtype.itemsize}")


EDGES: dict[str, Array] = {
    "f32": np.array(
        [
            0,
            1,
            2,
            0x7FFFFF,
            0x800000,
            0x3F800000,
            0x3F800001,
            0x40000000,
            0x4F000000,
            0x5F000000,
            0x7F7FFFFF,
            0x7F800000,
        ],
        np.uint32,
    ),
    "f64": np.array(
        [
            0,
            1,
            0xFFFFFFFFFFFFF,
            0x10000000000000,
            0x3FF0000000000000,
            0x3FF0000000000001,
            0x7FEFFFFFFFFFFFFF,
            0x7FF0000000000000,
        ],
        np.uint64,
    ),
    "f16": np.array([0, 1, 0x3FF, 0x400, 0x3C00, 0x3C01, 0x7BFF, 0x7C00], np.uint16),
    "bf16": np.array([0, 1, 0x7F, 0x80, 0x3F80, 0x3F81, 0x7F7F, 0x7F80], np.uint16),
}


def samples(t: str, count: int, seed: int, nans: bool = False) -> Array:
    """Edges of both signs, random bits, and numbers near 1, whose sums and quotients are near ties."""
    rng = np.random.default_rng(seed)
    bits = EDGES[t]
    whole = 2 ** (8 * bits.itemsize)
    sign = bits.dtype.type(whole // 2)
    anywhere = rng.integers(0, whole, count, bits.dtype)
    one = int(EDGES[t][-4 if t != "f32" else 5])
    near = (
        rng.integers(
            one - whole // 2**6 if t != "f64" else one - 2**57, one + (whole // 2**6 if t != "f64" else 2**57), count
        )
    ).astype(bits.dtype)
    few = (near >> bits.dtype.type(bits.itemsize * 4)) << bits.dtype.type(
        bits.itemsize * 4
    )  # with few bits: exact results
    made = np.concatenate([bits, bits | sign, anywhere, near, few, near ^ sign])
    magnitude = made & ~sign
    return rng.permutation(made if nans else made[magnitude <= EDGES[t][-1]])[: max(count, 1)]


def floats(bits: Array, t: str) -> Array:
    """The numbers with these bits, as numpy has them."""
    return bits.view({"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16}[t])


def rounded(exact: Fraction, way: str, t: str) -> float:
    """`exact` as a number of the format, by the book."""
    precision, least, greatest = FORMATS[t]
    if exact == 0:
        return 0.0
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    unit = Fraction(2) ** (max(exponent, least) - precision + 1)
    kept, rest = divmod(size, unit)
    up = way == "RP" if exact > 0 else way == "RM"
    if way == "RN":
        up = rest > unit / 2 or (rest == unit / 2 and kept % 2 == 1)
    kept += up and rest > 0
    largest = (Fraction(2) - Fraction(2) ** (1 - precision)) * Fraction(2) ** greatest
    made = kept * unit
    if made > largest:
        beyond = way == "RN" or (way == "RP" if exact > 0 else way == "RM")
        return (1 if exact > 0 else -1) * (math.inf if beyond else float(largest))
    return (1 if exact > 0 else -1) * float(made)


def same(made: Array, wanted: Array) -> None:
    """Equal bits."""
    differ = np.flatnonzero(bits_of(made) != bits_of(wanted))
    assert differ.size == 0, (
        f"{differ.size} differ, first at {differ[0]}: {bits_of(made)[differ[0]]:#x} != {bits_of(wanted)[differ[0]]:#x}"
    )


@pytest.mark.parametrize("t", ["f32", "f64"])
@pytest.mark.parametrize("way", WAYS)
def test_arithmetic_is_rounded_once(call: Call, t: str, way: str) -> None:
    count = 700
    x, y, z = (floats(samples(t, count, seed), t) for seed in (1, 2, 3))
    y[: count // 4] = x[: count // 4] * y.dtype.type(-1)  # cancels
    z[count // 4 : count // 2] = -(x * y)[count // 4 : count // 2]
    finite = np.isfinite(x) & np.isfinite(y) & np.isfinite(z)
    x, y, z = x[finite], y[finite], z[finite]
    exact = [tuple(map(Fraction, map(float, each))) for each in zip(x, y, z, strict=True)]
    made = {name: call(f"{name}_{way}_{t}", x, y) for name in ("add", "sub", "mul", "div")}
    made["fma"] = call(f"fma_{way}_{t}", x, y, z)
    for i, (a, b, c) in enumerate(exact):
        wanted = {"add": a + b, "sub": a - b, "mul": a * b, "fma": a * b + c, **({"div": a / b} if b else {})}
        for name, value in wanted.items():
            assert float(made[name][i]) == rounded(value, way, t), (name, float(a), float(b), float(c))
    roots = call(f"sqrt_{way}_{t}", np.abs(x))
    for (a, _, _), root in zip(exact, roots, strict=True):
        r = Fraction(float(root))
        above = Fraction(float(np.nextafter(root, root.dtype.type(np.inf))))
        below = Fraction(float(np.nextafter(root, root.dtype.type(0))))
        square = abs(a)
        if way == "RN":
            assert (r + below) ** 2 / 4 <= square <= (r + above) ** 2 / 4
        elif way == "RP":
            assert r * r >= square and (r == 0 or below * below < square)
        else:
            assert r * r <= square < above * above


def test_machines_without_fma_give_the_same(call: Call, tmp_path: Path) -> None:
    names = [
        name
        for name in TABLE
        if name.startswith(("fma_RN_f", "fma_f16", "fma_bf16")) or name.endswith(("integral", "s32_f32", "f16_f32"))
    ]
    plain = compiled(tmp_path, names, "-mno-fma")
    for name in names:
        given = [floats(samples(t, 20000, seed, nans=True), t) for seed, t in enumerate(types_of(name))]
        if name.endswith("x2"):
            given = [bits_of(array).view(np.uint32) for array in given]
        made, wanted = (bits_of(each(name, *given)) for each in (plain, call))
        nan = (
            np.isnan(floats(wanted, "f64")) if name == "fma_RN_f64" else np.zeros(wanted.shape, bool)
        )  # payloads are free
        same(made[~nan], wanted[~nan])


def types_of(name: str) -> list[str]:
    """Those of its operands; of pairs those of their parts, one for two."""
    return [t.removesuffix("x2") for t in TABLE[name][1]]


def test_zeros_have_the_right_sign(call: Call) -> None:
    for t in REALS:
        one, zero = STORED[t].type(1), STORED[t].type(0)
        for way in WAYS:
            assert bool(np.signbit(call(f"add_{way}_{t}", [one], [-one])[0])) == (way == "RM")
            assert bool(np.signbit(call(f"fma_{way}_{t}", [one], [one], [-one])[0])) == (way == "RM")
            assert not np.signbit(call(f"add_{way}_{t}", [zero], [zero])[0])
            assert np.signbit(call(f"add_{way}_{t}", [-zero], [-zero])[0])
            assert np.signbit(call(f"mul_{way}_{t}", [-zero], [one])[0])


def test_nan_and_infinity(call: Call) -> None:
    x, y = (floats(samples("f32", 3000, seed, nans=True), "f32") for seed in (4, 5))
    wanted = {"add": x + y, "sub": x - y, "mul": x * y, "div": x / y}
    for name, values in wanted.items():
        bits = np.where(np.isnan(values), np.uint32(0x7FFFFFFF), bits_of(values))
        same(call(f"{name}_RN_f32", x, y), bits.view(np.float32))
        for way in ("RZ", "RM", "RP"):
            made = call(f"{name}_{way}_f32", x, y)
            assert (np.isnan(made) == np.isnan(values)).all()
            special = np.isinf(x) | np.isinf(y) | (y == 0)
            same(made[special & np.isinf(values)], values[special & np.isinf(values)])
    made = call("add_ftz_sat_f32", x, y)
    flushed = [np.where(np.abs(v) < np.float32(2**-126), np.copysign(np.float32(0), v), v) for v in (x, y)]
    limited = np.clip(np.nan_to_num(flushed[0] + flushed[1], nan=0, posinf=2, neginf=-1), 0, 1).astype(np.float32)
    assert (made == np.where(limited < np.float32(2**-126), 0, limited)).all()


@pytest.mark.parametrize("t", ["f16", "bf16"])
def test_small_floats(call: Call, t: str) -> None:
    nan = np.uint16(0x7FFF)
    x, y, z = (samples(t, 20000, seed, nans=True) for seed in (7, 8, 9))
    a, b = (floats(v, t).astype(np.float32) for v in (x, y))
    for name in ("add", "sub", "mul"):
        values = {"add": a + b, "sub": a - b, "mul": a * b}[name].astype(floats(x, t).dtype)
        same(call(f"{name}_{t}", x, y), np.where(np.isnan(values.astype(np.float32)), nan, bits_of(values)))
    z[:5000] = bits_of((a * -b).astype(floats(x, t).dtype))[:5000]
    made, relu, pairs = (
        call(f"fma_{t}", x, y, z),
        call(f"fma_relu_{t}", x, y, z),
        call(f"fma_{t}x2", *(v.view(np.uint32) for v in (x, y, z))),
    )
    same(pairs.view(np.uint16), made)
    c = floats(z, t).astype(np.float32)
    for i in np.flatnonzero(np.isfinite(a) & np.isfinite(b) & np.isfinite(c))[:3000]:
        wanted = rounded(Fraction(float(a[i])) * Fraction(float(b[i])) + Fraction(float(c[i])), "RN", t)
        assert float(floats(made[i : i + 1], t)[0]) == wanted, (x[i], y[i], z[i])
        assert float(floats(relu[i : i + 1], t)[0]) == max(wanted, 0.0)
    if t == "f16":
        tiny = np.array([1, 0x3FF, 0x8001], np.uint16)
        same(call("add_ftz_f16", tiny, np.array([0, 0x400, 0], np.uint16)), np.array([0, 0x400, 0], np.uint16))


@pytest.mark.parametrize("t", ["f32", "f64", "f16", "bf16"])
def test_extremes_and_comparisons(call: Call, t: str) -> None:
    bits = EDGES[t]
    sign = bits.dtype.type(2 ** (8 * bits.itemsize - 1))
    every = np.concatenate([bits, bits | sign, bits[-1:] + bits.dtype.type(1), samples(t, 30, 10, nans=True)])
    x, y = (v.ravel() for v in np.meshgrid(every, every))
    a, b = floats(x, t).astype(np.float64), floats(y, t).astype(np.float64)
    nan = bits.dtype.type(int(sign) - 1)
    lower = (a < b) | ((a == b) & np.signbit(a))
    for name, first in (("min", lower), ("max", ~lower)):
        plain = np.where(np.isnan(a), y, np.where(np.isnan(b), x, np.where(first, x, y)))
        plain = np.where(np.isnan(a) & np.isnan(b), nan, plain)
        same(bits_of(call(f"{name}_{t}", x.view(STORED[t]), y.view(STORED[t]))), plain)
        strict = np.where(np.isnan(a) | np.isnan(b), nan, plain)
        same(bits_of(call(f"{name}_nan_{t}", x.view(STORED[t]), y.view(STORED[t]))), strict)
        both = ~np.isnan(a) & ~np.isnan(b)
        size = np.minimum(x & ~sign, y & ~sign) if name == "min" else np.maximum(x & ~sign, y & ~sign)
        made = bits_of(call(f"{name}_xorsign_{t}", x.view(STORED[t]), y.view(STORED[t])))
        same(made[both], (size | ((x ^ y) & sign))[both])
    same(bits_of(call(f"copysign_{t}", x.view(STORED[t]), y.view(STORED[t]))), (y & ~sign) | (x & sign))
    unordered = np.isnan(a) | np.isnan(b)
    ordered = {
        "eq": a == b,
        "ne": (a != b) & ~unordered,
        "lt": a < b,
        "le": a <= b,
        "gt": a > b,
        "ge": a >= b,
        "num": ~unordered,
        "nan": unordered,
    }
    made = call(f"compare_{t}", x.view(STORED[t]), y.view(STORED[t]))
    for place, name in enumerate(COMPARISONS):
        wanted = ordered[name] if name in ordered else ordered[name[:-1]] | unordered
        assert ((made >> place & 1).astype(bool) == wanted).all(), name


def test_properties(call: Call) -> None:
    x = floats(samples("f32", 500, 11, nans=True), "f32")
    tiny = (np.abs(x) < np.float32(2**-126)) & (x != 0)
    wanted = [np.isfinite(x), np.isinf(x), ~np.isnan(x), np.isnan(x), np.isfinite(x) & ~tiny & (x != 0), tiny]
    made = call("testp", x)
    for place, each in enumerate(wanted):
        assert ((made >> place & 1).astype(bool) == each).all(), PROPERTIES[place]


def near_every_f16() -> Array:
    """Floats around each number of f16 and bf16 and each middle between two."""
    upper = np.arange(2**16, dtype=np.uint32) << np.uint32(16)
    lower = np.array([0, 1, 0x0FFF, 0x1000, 0x1001, 0x2FFF, 0x3000, 0x7FFF, 0x8000, 0x8001, 0xF000, 0xFFFF], np.uint32)
    return np.asarray((upper[:, None] | lower).ravel().view(np.float32))


def test_f16_and_bf16_from_and_to_f32(call: Call) -> None:
    x = near_every_f16()
    for t, dtype in (("f16", np.float16), ("bf16", ml_dtypes.bfloat16)):
        values = x.astype(dtype)
        wanted = np.where(np.isnan(x), np.uint16(0x7FFF), bits_of(values))
        same(call(f"cvt_RN_{t}_f32", x), wanted)
        same(call(f"cvt_{t}x2", x, x[::-1]), wanted.astype(np.uint32) << np.uint32(16) | wanted[::-1])
        codes = np.arange(2**16, dtype=np.uint16)
        widened = codes.view(dtype).astype(np.float32)
        same(
            call(f"cvt_f32_{t}", codes),
            np.where(np.isnan(widened), np.uint32(0x7FFFFFFF), bits_of(widened)).view(np.float32),
        )
        number = ~np.isnan(x)
        largest = float(FINFO(dtype).max)
        finite = np.clip(x, 0, largest).astype(dtype)
        made = call(f"cvt_satfinite_{t}_f32", x)
        same(made[number], np.where(x <= 0, np.uint16(0), bits_of(finite))[number])
        assert (made[~number] == 0x7FFF).all()
        chosen = np.random.default_rng(12).choice(x[np.isfinite(x)], 1500)
        wide = chosen.astype(np.float64) * (
            1 + np.random.default_rng(13).choice([0, 2.0**-40, -(2.0**-40)], chosen.size)
        )
        for way in WAYS:
            narrow, from_f64 = (floats(call(f"cvt_{way}_{t}_{s}", v), t) for s, v in (("f32", chosen), ("f64", wide)))
            for value, one, exact, other in zip(chosen, narrow, wide, from_f64, strict=True):
                assert float(one) == rounded(Fraction(float(value)), way, t), (way, value)
                assert way != "RN" or float(other) == rounded(Fraction(float(exact)), way, t), (way, exact)


def test_f32_from_f64_and_integers(call: Call) -> None:
    x = floats(samples("f64", 1500, 14), "f64")
    x = np.concatenate([x, np.float64(near_every_f16()[::97])])
    x = x[np.isfinite(x)]
    rng = np.random.default_rng(15)
    whole = {
        t: rng.integers(0, 2**64, 400, np.uint64) >> rng.integers(0, 60, 400, np.uint64) for t in ("u64", "s64", "u32")
    }
    whole["u64"][:3] = 0, 2**64 - 1, 2**63 + 2**39
    for way in WAYS:
        made = call(f"cvt_{way}_f32_f64", x)
        for value, one in zip(x[:3000], made, strict=False):
            assert float(one) == rounded(Fraction(float(value)), way, "f32"), (way, value)
        for t, bits in whole.items():
            values = bits.astype(STORED[t])
            for value, one in zip(values, call(f"cvt_{way}_f32_{t}", values), strict=True):
                assert float(one) == rounded(Fraction(int(value)), way, "f32"), (way, value)
        values = whole["s64"].view(np.int64)
        for value, one in zip(values, call(f"cvt_{way}_f64_s64", values), strict=True):
            assert float(one) == rounded(Fraction(int(value)), way, "f64"), (way, value)
    for t in ("f16", "bf16"):
        values = np.concatenate([whole["s64"].view(np.int64), rng.integers(-70000, 70000, 400)])
        for value, one in zip(values, floats(call(f"cvt_{t}_s64", values), t), strict=True):
            assert float(one) == rounded(Fraction(int(value)), "RN", t), value


def test_integers_from_floats(call: Call) -> None:
    ways = {"RN": np.rint, "RZ": np.trunc, "RM": np.floor, "RP": np.ceil}
    for real in REALS:
        x = floats(samples(real, 400, 16), real)
        halves = np.concatenate(
            [np.arange(-300, 300) / 2, np.ldexp(1.0, range(70)) - 0.5, -np.ldexp(1.0, range(70)) + 0.25]
        )
        x = np.concatenate([x, halves.astype(x.dtype)])
        for way, t in product(WAYS, INTEGERS):
            limits = np.iinfo(STORED[t])
            whole = ways[way](x)
            wanted = [
                int(min(max(Fraction(float(v)), Fraction(limits.min)), Fraction(limits.max)))
                if np.isfinite(v)
                else (limits.max if v > 0 else limits.min)
                for v in whole
            ]
            assert call(f"cvt_{way}_{t}_{real}", x).tolist() == wanted, (way, t, real)
            wide = real == "f64" or t.endswith("64")
            lone = 1 << (limits.bits - 1)
            of_nan = call(f"cvt_{way}_{t}_{real}", np.array([np.nan], STORED[real]))
            assert int(bits_of(of_nan)[0]) == (lone if wide else 0), (t, real)
    x = floats(samples("f32", 2000, 17), "f32")
    for way in WAYS:
        same(call(f"cvt_{way}_integral", x), ways[way](x))


def test_integers_from_integers(call: Call) -> None:
    rng = np.random.default_rng(18)
    for to, source in product(INTEGERS, INTEGERS):
        limits, bounds = np.iinfo(STORED[source]), np.iinfo(STORED[to])
        x = np.concatenate(
            [
                rng.integers(limits.min, limits.max, 50, STORED[source], endpoint=True),
                np.array([limits.min, limits.max, 0, 1], STORED[source]),
            ]
        )
        wanted = [min(max(int(v), bounds.min), bounds.max) for v in x]
        assert call(f"cvt_sat_{to}_{source}", x).tolist() == wanted, (to, source)


def test_tf32(call: Call) -> None:
    x = np.concatenate([near_every_f16()[::7], floats(samples("f32", 2000, 19), "f32")])
    x = x[np.isfinite(x)]
    bits = bits_of(x).astype(np.int64)
    for way, added in (("RZ", 0), ("RNA", 0x1000), ("RN", 0xFFF + (bits >> 13 & 1))):
        same(call(f"tf32_{way}", x), ((bits + added) & 0xFFFFE000).astype(np.uint32))
    assert call("tf32_RNA", np.array([np.inf, -np.inf, np.nan], np.float32)).tolist() == [
        0x7F800000,
        0xFF800000,
        0x7FFFFFFF,
    ]


@pytest.mark.parametrize("code", CODES)
def test_codes_below_16_bits(call: Call, code: str) -> None:
    dtype, largest, place = CODES[code]
    x = np.concatenate([near_every_f16()[::5], np.array([np.inf, -np.inf, np.nan], np.float32)])
    number = np.clip(np.nan_to_num(x, nan=0.0, posinf=largest, neginf=-largest), -largest, largest)
    wanted = bits_of(number.astype(dtype)).astype(np.uint16)
    nan = 0x7F if code in ("E4M3", "E5M2") else int(bits_of(np.array([largest], np.float32).astype(dtype))[0])
    wanted = np.where(np.isnan(x), np.uint16(nan), wanted)
    made = call(f"to_{code}", x, x[::-1])
    same(made & np.uint16(2**place - 1), wanted[::-1])
    same(made >> np.uint16(place), wanted)
    halves = np.arange(2**16, dtype=np.uint16)
    pairs = call(f"to_{code}_f16x2", halves.astype(np.uint32) << np.uint32(16) | 0x3C00)
    single = call(f"to_{code}", np.maximum(halves.view(np.float16).astype(np.float32), np.float32(0)), np.float32(1))
    positive = halves.view(np.float16) > 0
    same(pairs[positive], single[positive])
    assert (pairs[halves.view(np.float16) < 0] >> np.uint16(place) == 0).all()
    codes = np.arange(2**place if place == 4 else 2 ** (8 if nan == 0x7F else 6), dtype=np.uint8)
    values = codes.view(dtype).astype(np.float16)
    made = call(f"from_{code}", codes.astype(np.uint16) << np.uint16(place) | codes[::-1])
    decoded = np.where(np.isnan(values), np.uint16(0x7FFF), bits_of(values)).astype(np.uint32)
    same(made, decoded << np.uint32(16) | decoded[::-1])


def test_powers_of_two(call: Call) -> None:
    x = np.array([1, 1.5, 2, 0, 2**-127, 2**-126, 3e-39, 1e-40, np.inf, np.nan, 3e38, -1.5], np.float32)
    assert (call("to_UE8M0", x, x) & 0xFF).tolist() == [
        127,
        128,
        128,
        0,
        0,
        1,
        0 if 3e-39 <= 2**-127 else 1,
        0,
        255,
        255,
        255,
        128,
    ]
    codes = np.arange(256, dtype=np.uint16)
    made = floats((call("from_UE8M0", codes) & 0xFFFF).astype(np.uint16), "bf16").astype(np.float64)
    assert np.isnan(made[255]) and (made[:255] == np.ldexp(1.0, np.arange(255) - 127)).all()


def wrapped(value: int, t: str) -> int:
    bits = int(t[1:])
    value %= 2**bits
    return value - 2**bits if t[0] == "s" and value >= 2 ** (bits - 1) else value


def field(a: int, start: int, length: int, t: str) -> int:
    """bfe as the ISA writes it."""
    last, start, length = int(t[1:]) - 1, start & 255, length & 255
    sign = 0 if t[0] == "u" or length == 0 else a >> min(start + length - 1, last) & 1
    return sum((a >> (start + i) & 1 if i < length and start + i <= last else sign) << i for i in range(last + 1))


def inserted(a: int, start: int, length: int, t: str) -> int:
    made, start, length = wrapped(0x5A5A5A5AC3C3C3C3, t), start & 255, length & 255
    for i in range(length):
        if start + i < int(t[1:]):
            made = made & ~(1 << (start + i)) | (a >> i & 1) << (start + i)
    return made


def leading(a: int, t: str) -> int:
    value = ~a if a < 0 else a
    return value.bit_length() - 1


@pytest.mark.parametrize("t", ["u32", "s32", "u64", "s64"])
def test_integer_arithmetic(call: Call, t: str) -> None:
    bits, limits = int(t[1:]), np.iinfo(STORED[t])
    rng = np.random.default_rng(20)
    edges = STORED[t].type(
        [0, 1, 2, 3, limits.max, limits.min, limits.max - 1, wrapped(-1, t), wrapped(1 << bits // 2, t)]
    )
    every = np.concatenate([edges, rng.integers(limits.min, limits.max, 15, STORED[t])])
    x, y = (v.ravel() for v in np.meshgrid(every, every))
    pairs = [(int(a), int(b)) for a, b in zip(x, y, strict=True)]

    def divided(a: int, b: int) -> tuple[int, int]:
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else -1
        return quotient, a - quotient * b if b else a

    wanted = {
        "mul_hi": [a * b >> bits for a, b in pairs],
        "div": [divided(a, b)[0] for a, b in pairs],
        "rem": [divided(a, b)[1] for a, b in pairs],
        "min": [min(a, b) for a, b in pairs],
        "max": [max(a, b) for a, b in pairs],
    }
    for name, values in wanted.items():
        assert call(f"{name}_{t}", x, y).tolist() == [wrapped(v, t) for v in values], name
    assert call(f"sad_{t}", x, y, x).tolist() == [wrapped(abs(a - b) + a, t) for a, b in pairs]
    by = np.array([0, 1, 2, 7, 8, 31, 32, 33, 63, 64, 65, 255, 256, 300, 2**32 - 1], np.uint32)
    x, start, length = (v.ravel() for v in np.meshgrid(every, by, by))
    cases = [(int(a), int(b), int(c)) for a, b, c in zip(x, start, length, strict=True)]
    assert call(f"bfe_{t}", x, start, length).tolist() == [wrapped(field(*case, t), t) for case in cases]
    assert call(f"bfi_{t}", x, start, length).tolist() == [wrapped(inserted(*case, t), t) for case in cases]
    assert call(f"shl_{t}", x, start).tolist() == [wrapped(a << min(b, 64), t) for a, b, _ in cases]
    assert call(f"shr_{t}", x, start).tolist() == [a >> min(b, 64) for a, b, _ in cases]
    if bits == 32:
        for wrap, name in ((True, "true"), (False, "false")):
            counts = [b & 31 if wrap else min(b, 32) for _, b, _ in cases]
            made = call(f"szext_{name}_{t}", x, start).tolist()
            assert made == [wrapped(field(a, 0, b, t), t) for (a, _, _), b in zip(cases, counts, strict=True)]
        low = [[wrapped(v << 8, t) >> 8 for v in case[:2]] for case in pairs]
        x, y = (STORED[t].type(v) for v in zip(*pairs, strict=True))
        assert call(f"mul24_lo_{t}", x, y).tolist() == [wrapped(a * b, t) for a, b in low]
        assert call(f"mul24_hi_{t}", x, y).tolist() == [wrapped(a * b >> 16, t) for a, b in low]
    places = [leading(int(v), t) for v in every]
    assert call(f"bfind_{t}", every).tolist() == [p % 2**32 for p in places]
    assert call(f"shiftamt_{t}", every).tolist() == [bits - 1 - p if p >= 0 else 2**32 - 1 for p in places]
    unsigned = [int(v) % 2**bits for v in every]
    assert call(f"bits_{t}", every).tolist() == [v.bit_count() << 8 | (bits - v.bit_length()) for v in unsigned]
    assert call(f"brev_{t}", every).tolist() == [wrapped(int(f"{v:0{bits}b}"[::-1], 2), t) for v in unsigned]


PERMUTED = {  # the ISA's table: bytes from the upper to the lower, by the lower two bits of c
    "f4e": ("3210", "4321", "5432", "6543"),
    "b4e": ("5670", "6701", "7012", "0123"),
    "rc8": ("0000", "1111", "2222", "3333"),
    "ecl": ("3210", "3211", "3222", "3333"),
    "ecr": ("0000", "1110", "2210", "3210"),
    "rc16": ("1010", "3232", "1010", "3232"),
}


def test_bits_of_words(call: Call) -> None:
    rng = np.random.default_rng(21)
    x, y, z = (rng.integers(0, 2**32, 3000, np.uint32) for _ in range(3))
    triples = [(int(a), int(b), int(c)) for a, b, c in zip(x, y, z, strict=True)]

    def taken(a: int, b: int, digit: int) -> int:
        byte = (b << 32 | a) >> 8 * (digit & 7) & 0xFF
        return byte if digit < 8 else 0xFF * (byte >> 7)

    for mode in MODES:
        digits = [(f"{c & 0xFFFF:04x}" if mode == "bytes" else PERMUTED[mode][c & 3]) for *_, c in triples]
        wanted = [
            int.from_bytes(bytes(taken(a, b, int(d, 16)) for d in text), "big")
            for (a, b, _), text in zip(triples, digits, strict=True)
        ]
        assert call(f"prmt_{mode}", x, y, z).tolist() == wanted, mode
    by = z % np.uint32(40)
    for wrap in (True, False):
        amounts = [int(v) & 31 if wrap else min(int(v), 32) for v in by]
        name = str(wrap).lower()
        both = [(b << 32 | a, n) for (a, b, _), n in zip(triples, amounts, strict=True)]
        assert call(f"shf_l_{name}", x, y, by).tolist() == [(v << n) >> 32 & 0xFFFFFFFF for v, n in both]
        assert call(f"shf_r_{name}", x, y, by).tolist() == [v >> n & 0xFFFFFFFF for v, n in both]
        start, count = x % np.uint32(40), by
        cut = [((int(a) & 31, int(b) & 31) if wrap else (int(a), int(b))) for a, b in zip(start, count, strict=True)]
        assert call(f"bmsk_{name}", start, count).tolist() == [(2 ** min(b, 32) - 1) << a & 0xFFFFFFFF for a, b in cut]
    w = x ^ y ^ np.uint32(0x12345678)
    looked_up = np.zeros_like(x)
    for row in range(8):
        met = (x if row & 4 else ~x) & (y if row & 2 else ~y) & (w if row & 1 else ~w)
        looked_up |= np.where(z >> np.uint32(row) & 1, met, 0).astype(np.uint32)
    same(call("lop3", x, y, z), looked_up)
    a, b = x.view(np.int32), y.view(np.int32)
    wide = a.astype(np.int64), b.astype(np.int64)
    same(call("add_sat", a, b), np.clip(wide[0] + wide[1], -(2**31), 2**31 - 1).astype(np.int32))
    same(call("sub_sat", a, b), np.clip(wide[0] - wide[1], -(2**31), 2**31 - 1).astype(np.int32))
    for (i, u), (j, v) in product(enumerate("us"), enumerate("us")):
        bytes_a, bytes_b = (
            word.view([np.uint8, np.int8][k]).reshape(-1, 4).astype(np.int64) for word, k in ((x, i), (y, j))
        )
        halves = x.view([np.uint16, np.int16][i]).reshape(-1, 2).astype(np.int64)
        same(call(f"dp4a_{u}{v}", x, y, z), ((bytes_a * bytes_b).sum(1) + z).astype(np.uint32))
        same(call(f"dp2a_{u}{v}", x, y, z), ((halves * bytes_b[:, 2:]).sum(1) + z).astype(np.uint32))
    for t in ("u32", "u64"):
        values = [rng.integers(0, 2 ** int(t[1:]), 500, STORED[t]) for _ in range(3)]
        values[1][:100], values[0][100:200] = ~values[0][:100], values[1][100:200]
        for name, sign in (("add_carry", 1), ("sub_borrow", -1)):
            made = call(f"{name}_{t}", *values).tolist()
            exact = [int(p) + sign * (int(q) + int(r & 1)) for p, q, r in zip(*values, strict=True)]
            assert made == [wrapped(wrapped(v, t) * 2 + (not 0 <= v < 2 ** int(t[1:])), t) for v in exact], name


def exactly(name: str, x: Array) -> Array:
    wide = x.astype(np.float64)
    if name in ("rcp", "rsqrt"):
        return np.divide(1, wide if name == "rcp" else np.sqrt(wide))
    return np.asarray(getattr(np, name)(wide))


def allowed(name: str, x: Array, exact: Array) -> Array:
    """The ISA's bound, and half an ulp where that is more: the nearest number is allowed."""
    ulp = np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)
    angle = np.where(np.abs(x) <= 2 * np.pi, 2**-20.5, np.where(np.abs(x) <= 100 * np.pi, 2**-14.7, 1.0))
    bound = {
        "rcp": ulp, "sqrt": np.abs(exact) * 2**-23, "rsqrt": np.abs(exact) * 2**-22.9, "exp2": 2.5 * ulp,
        "log2": np.where((x > 0.5) & (x < 2), 2**-22, np.abs(exact) * 2**-22), "sin": angle, "cos": angle,
        "tanh": np.abs(exact) * 2**-11,
    }[name]  # fmt: skip
    return np.asarray(np.maximum(bound, ulp / 2) * (1 + 1e-9))


@pytest.mark.parametrize("name", APPROXIMATED)
def test_approximations(call: Call, name: str) -> None:
    x = floats(samples("f32", 3000, 22, nans=True), "f32")
    if name in ("exp2", "sin", "cos", "tanh", "log2"):
        x = np.concatenate(
            [
                x,
                np.random.default_rng(23).uniform(-150, 150, 3000).astype(np.float32),
                np.array([0, -0.0, 1, 2, np.inf, -np.inf], np.float32),
            ]
        )
    exact = exactly(name, x)
    nearest = exact.astype(np.float32)
    zero = call(f"{name}_approximate", x, np.uint64(0))
    same(zero, np.where(np.isnan(nearest), np.uint32(0x7FFFFFFF), bits_of(nearest)).view(np.float32))
    moved = 0
    for seed in (1, 2, 0xFFFFFFFFFFFFFFFF):
        made = call(f"{name}_approximate", x, np.uint64(seed))
        same(call(f"{name}_approximate", x, np.uint64(seed)), made)
        fixed = ~np.isfinite(nearest) | ~np.isfinite(x) | (x == 0)
        same(made[fixed], zero[fixed])
        error = np.abs(made.astype(np.float64) - exact)[~fixed]
        assert (error <= allowed(name, x.astype(np.float64), exact)[~fixed]).all()
        moved += np.count_nonzero(made[~fixed] != zero[~fixed])
    assert moved > 500, "no seed moves a result"


def test_division_by_approximation(call: Call) -> None:
    x, y = (floats(samples("f32", 5000, seed, nans=True), "f32") for seed in (24, 25))
    exact = x.astype(np.float64) / y.astype(np.float64)
    nearest = exact.astype(np.float32)
    ulp = np.spacing(np.abs(nearest)).astype(np.float64)
    big = np.abs(y) > np.float32(2**126)
    for name, seed in product(("div_approximate", "div_full"), (0, 5)):
        made = call(name, x, y, np.uint64(seed))
        judged = np.isfinite(nearest) & (~big if name == "div_approximate" else True)
        assert (np.abs(made - exact)[judged] <= (2 if seed else 0.5) * ulp[judged]).all()
        assert (np.isnan(made) == (np.isnan(nearest) | (big & np.isinf(x) & (name == "div_approximate")))).all()
        if name == "div_approximate":
            assert (made[big & np.isfinite(x)] == 0).all()


def test_small_approximations(call: Call) -> None:
    codes = np.arange(2**16, dtype=np.uint16)
    bounds = {"f16": (2**-9.9, 2**-10.987, 2.0**-24), "bf16": (2**-7, 2**-8, 2.0**-126)}
    for t, (relative, difference, least) in bounds.items():
        x = floats(codes, t).astype(np.float64)
        finite = np.isfinite(x)
        power, tangent = np.exp2(x), np.tanh(x)
        largest = float(FINFO(floats(codes, t).dtype).max)
        for seed in (0, 9):
            made = floats(call(f"exp2_{t}", codes, np.uint64(seed)), t).astype(np.float64)
            judged = finite & (power < largest)
            assert (np.abs(made - power)[judged] <= np.maximum(relative * power, least)[judged] * (1 + 1e-9)).all()
            assert (made[x == 0] == 1).all() and (made[x == np.inf] == np.inf).all() and (made[x == -np.inf] == 0).all()
            made = floats(call(f"tanh_{t}", codes, np.uint64(seed)), t).astype(np.float64)
            assert (np.abs(made - tangent)[finite] <= difference * (1 + 1e-9)).all() and (
                np.abs(made[~np.isnan(x)]) <= 1
            ).all()
            assert (bits_of(call(f"tanh_{t}", codes, np.uint64(seed)))[np.isnan(x)] == 0x7FFF).all()


def test_flushed_and_double_approximations(call: Call) -> None:
    x = np.array([-126, -127, -130, 2**-130, -np.inf], np.float32)
    assert call("exp2_ftz", x, np.uint64(3)).tolist()[1:] == [0, 0, 1, 0]
    y = np.concatenate(
        [floats(samples("f64", 2000, 26), "f64"), np.array([0, -0.0, 5e-324, np.inf, -np.inf, np.nan], np.float64)]
    )
    for name, seed in product(("rcp", "rsqrt"), (0, 4)):
        made = call(f"{name}_ftz_f64", y, np.uint64(seed))
        assert (bits_of(made) & np.uint64(0xFFFFFFFF) == 0).all()
        exact = 1 / y if name == "rcp" else 1 / np.sqrt(np.where(np.abs(y) < 2.0**-1022, np.copysign(0, y), y))
        normal = np.isfinite(exact) & (np.abs(exact) >= 2.0**-1022) & (np.abs(y) >= 2.0**-1022)
        assert (np.abs(made - exact)[normal] <= np.abs(exact)[normal] * 2.0**-18).all()
        assert bits_of(made)[-1] == 0x7FFFFFFF00000000
        assert (made[y == 0] == exact[y == 0]).all()
