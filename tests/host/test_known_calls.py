"""What a call finds known it does not check again, and no check is lost by that: calls are taken, refused and launched
as by a kernel that has seen no other."""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gemmgen.arrays import fastcall, libraries
from gemmgen.arrays import kernel as kernel_module
from gemmgen.arrays.checked import Arrays, Checked
from gemmgen.arrays.kernel import ArrayKernel
from gemmgen.arrays.library import ArrayProduct
from gemmgen.arrays.view import ArrayView, view_of
from gemmgen.exports.library.choice import Rule
from gemmgen.exports.library.members import Needs
from gemmgen.exports.library.table import Box
from gemmgen.families import SIMT
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.gemm import Problem
from gemmgen.problem.sizes import SIZE_LIMIT
from gemmgen.render.kernel_text import render
from gemmgen.support.errors import InvalidInput

ENQUEUE = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)
GET_CURRENT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


class Place(NamedTuple):
    type: str = "cpu"
    index: int | None = None


class Tensor(np.ndarray):  # type: ignore[type-arg]
    """As torch's, as far as a call reads it."""

    device, is_cuda, requires_grad = Place(), False, False

    def stride(self) -> tuple[int, ...]:
        return tuple(step // self.itemsize for step in self.strides)

    def data_ptr(self) -> int:
        return self.ctypes.data

    @classmethod
    def of(cls, array: Any) -> Any:
        return array.view(cls) if type(array) is np.ndarray else array


Tensor.__module__ = "played"


class Tensors(libraries.Numpy):
    """The library of `Tensor`: what is told of writes is noted."""

    name = "torch"
    written: ClassVar[list[Any]] = []

    def empty(self, shape: tuple[int, ...], dtype: Any, like: Any) -> Any:
        return Tensor.of(super().empty(shape, dtype, like))

    def wrote(self, array: Any) -> None:
        self.written.append(array)


@pytest.fixture(params=["Python", "C"])
def native(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of fastcall.c for calls that are known, or None, where Python takes them."""
    if request.param == "Python":
        return None
    monkeypatch.setattr(kernel_module, "tensor_type", lambda: Tensor)
    monkeypatch.setitem(libraries.KINDS, "played", Tensors)
    monkeypatch.setitem(sys.modules, "played", ModuleType("played"))
    monkeypatch.setattr(libraries, "_known", {})
    return request.getfixturevalue("fastcalls")


class Recorder:
    """A backend that computes nothing: it notes each launch and the addresses that it gets, by name.

    taken  how many of them fastcall.c made, where it is `native`
    """

    device = "cpu"

    def __init__(self, native: Any = None) -> None:
        self.log: list[Any] = []
        self.native, self.taken = native, 0

    def direct(self, known: Checked) -> fastcall.Direct:
        """What launches of this form do, by fastcall.c: they are noted, too."""
        count = len(known.names) + 1

        def enqueue(config: int, function: int, parameters: int, extra: int) -> int:
            at = (ctypes.c_void_p * count).from_address(parameters)
            *addresses, rows = (ctypes.c_uint64.from_address(one).value for one in at)
            self.run(known, rows if known.by_rows else None, addresses, None, None)
            self.taken += 1
            return 0

        functions = ENQUEUE(enqueue), GET_CURRENT(lambda context: 0)
        launch, current = (ctypes.cast(one, ctypes.c_void_p).value or 0 for one in functions)
        pointers, places = (current, launch, 0), [(place, place) for place in range(count)]
        return fastcall.Direct(pointers, 0, 0, bytes(56), [0] * count, places, [], 1, lambda rows: 1, functions)

    def locate(self, view: ArrayView) -> ArrayView:
        return view

    def run(self, known: Checked, rows: int | None, addresses: Sequence[int], a: Any, stream: Any) -> None:
        assert known.by_rows == (rows is not None)
        case = known.at(rows)
        self.log.append((case, {name: at for name, at in zip(known.names, addresses, strict=True) if name != "C"}))

    def plan(self, arrays: Arrays) -> Any:
        raise NotImplementedError

    def prepare(self, *given: Any) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self.log.clear()


def source_of(problem: Problem) -> KernelSource:
    return render(problem, SIMT, SIMT.default(problem))


def kernel_of(source: KernelSource, native: Any = None) -> ArrayKernel:
    return ArrayKernel(source, Recorder(native))  # type: ignore[arg-type]


def outcome(kernel: ArrayKernel, call: Mapping[str, Any]) -> Any:
    """The launch of a call, or what is said against it."""
    log, native = kernel._backend.log, kernel._backend.native  # type: ignore[attr-defined]
    call = {name: Tensor.of(one) for name, one in call.items()} if native else call
    log.clear()
    try:
        kernel(**call)
    except InvalidInput as error:
        return str(error)
    return log[0]


EDGES = {"lda": None, "ldb": None, "ldc": None, "pointer_align": 4}
SOURCES = {
    name: source_of(problem)
    for name, problem in {
        "rows": Problem(None, 6, 4, layout="rc", **EDGES),
        "any": Problem(None, None, None, **EDGES),
        "all": Problem(None, 6, None, epilogue="bias_m+residual", ld_residual=None, **EDGES),
        "columns": Problem(None, None, None, layout="cr", **EDGES),
        "fixed": Problem(3, 6, 4, **EDGES),
        "batch": Problem(None, 6, 4, batch=None, stride_a=None, stride_b=None, stride_c=None, **EDGES),
    }.items()
}


ODD = ("size", "order", "step", "type", "pad", "address", "frozen", "flat")
ROOM = 8  # of each dimension, for arrays whose strides do not change with their sizes


def array(draw: Callable[..., Any], shape: tuple[int, ...], order: str, roomy: bool, odd: str) -> Any:
    """Zeros of this shape in this order; `odd` in one respect."""
    sizes = list(shape)
    if odd == "size":
        place = draw(st.integers(0, len(sizes) - 1))
        sizes[place] = max(0, sizes[place] + draw(st.sampled_from([-1, 1])))
    sizes = sizes[1:] or sizes if odd == "flat" else sizes
    turned = (order == "c") != (odd == "order") and len(sizes) > 1
    room = [*sizes[:-2], *sizes[:-3:-1]] if turned else sizes[:]
    whole = [ROOM] * len(room) if roomy else room[:]
    whole[-1] = whole[-1] * (2 if odd == "step" else 1) + draw(st.sampled_from([1, 4])) * (odd == "pad")
    flat = np.zeros(int(np.prod(whole)) + 8, np.float64 if odd == "type" else np.float32)
    start = -flat.ctypes.data // flat.itemsize % 4 + (odd == "address")
    made = flat[start : start + int(np.prod(whole))].reshape(whole)[..., :: 2 if odd == "step" else 1]
    made = made[tuple(slice(0, one) for one in room)]
    made.flags.writeable = odd != "frozen"
    return made.swapaxes(-1, -2) if turned else made


@st.composite
def calls(draw: Callable[..., Any], source: KernelSource, roomy: bool) -> dict[str, Any]:
    """Arrays that fit each other and mostly the kernel, but for one of them at most."""
    problem = source.problem
    m = draw(st.sampled_from([1, 2, 3, 4, *[problem.m or 3] * 3]))
    batch = (draw(st.integers(1, 2)),) if problem.batched else ()
    n, k = (size or draw(st.sampled_from([1, 2, 2, 2, 0])) for size in (problem.n, problem.k))
    shapes = {"a": (*batch, m, k), "b": (*batch, k, n), "out": (*batch, m, n)}
    shapes |= {one.name: {"bias_m": (m,), "residual": (m, n)}[one.name] for one in problem.epilogue.operands}
    orders = {"a": problem.layout.a, "b": problem.layout.b}
    odd = draw(st.sampled_from([None, None, *shapes]))
    kinds = {name: draw(st.sampled_from(ODD)) if name == odd else "" for name in shapes}
    call = {name: array(draw, shape, orders.get(name, "r"), roomy, kinds[name]) for name, shape in shapes.items()}
    change = draw(st.sampled_from(["", "", "", "no out", "in place", "beta"]))
    if change == "no out":
        del call["out"]
    return call | ({"out": call["a"]} if change == "in place" else {"beta": 1.0} if change == "beta" else {})


SAME_FIXTURE = [HealthCheck.function_scoped_fixture]  # for all examples: it does not change


@pytest.mark.parametrize("name", SOURCES)
@settings(deadline=None, max_examples=40, suppress_health_check=SAME_FIXTURE)
@given(data=st.data())
def test_a_call_ends_as_if_it_were_the_first(native, name: str, data: st.DataObject) -> None:
    known, roomy = kernel_of(SOURCES[name], native), data.draw(st.booleans())
    for _ in range(data.draw(st.integers(2, 8))):
        call = data.draw(calls(SOURCES[name], roomy))
        call = {key: _writable(one) if native and key != "beta" else one for key, one in call.items()}
        assert outcome(known, call) == outcome(kernel_of(SOURCES[name]), call)


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("native", ["C", "Python"])
@settings(deadline=None, max_examples=100, suppress_health_check=SAME_FIXTURE)
@given(data=st.data())
def test_a_call_with_tensors_of_torch_ends_as_if_it_were_the_first(
    torch, fastcalls, native: str, name: str, data: st.DataObject
) -> None:
    known = kernel_of(SOURCES[name], fastcalls if native == "C" else None)
    roomy = data.draw(st.booleans())
    for _ in range(data.draw(st.integers(2, 8))):
        call = data.draw(calls(SOURCES[name], roomy))  # torch knows no array that is read-only
        call = {key: torch.from_numpy(_writable(one)) if key != "beta" else one for key, one in call.items()}
        assert outcome(known, call) == outcome(kernel_of(SOURCES[name]), call)


def _writable(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array if array.flags.writeable else array.copy()


def normal(*shape: int) -> np.ndarray[Any, Any]:
    """At an address that 16 bytes divide, with as many behind it."""
    flat = np.zeros(int(np.prod(shape)) + 8, np.float32)
    start = -flat.ctypes.data // 4 % 4
    return flat[start : start + int(np.prod(shape))].reshape(shape)


def aside(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same shape and strides at an address that 4 bytes divide."""
    flat = np.zeros(array.size + 8, np.float32)
    start = -flat.ctypes.data // 4 % 4 + 1
    return flat[start : start + array.size].reshape(array.shape)


def frozen(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    made = array.view()
    made.flags.writeable = False
    return made


SQUARE = source_of(Problem(None, 16, 16, epilogue="bias+residual"))
GOOD = {"a": normal(9, 16), "b": normal(16, 16), "out": normal(9, 16), "bias_n": normal(16), "residual": normal(9, 16)}
VIEW = view_of("A", GOOD["a"])
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "M of C": ({"out": normal(8, 16)}, "C is 8 x 16 (M x N): the other operands have M = 9"),
    "M of A": ({"a": normal(7, 16)}, "C is 9 x 16 (M x N): the other operands have M = 7"),
    "M of a matrix": ({"residual": normal(8, 16)}, "residual is 8 x 16 (M x N): the other operands have M = 9"),
    "N of C": ({"out": normal(9, 15)}, "C is 9 x 15 (M x N): this kernel is built for N = 16"),
    "K of A": ({"a": normal(9, 15)}, "A is 9 x 15 (M x K): this kernel is built for K = 16"),
    "address": ({"a": aside(GOOD["a"])}, "16 bytes divide"),
    "address of C": ({"out": aside(GOOD["a"])}, "16 bytes divide"),
    "overlap": ({"out": GOOD["a"]}, "out is A's array"),
    "overlap of a matrix": ({"out": GOOD["residual"]}, "out is residual's array"),
    "type": ({"a": GOOD["a"].astype("f8")}, "A is of f64"),
    "type of C": ({"out": GOOD["out"].astype("f8")}, "C is of f64"),
    "type of a vector": ({"bias_n": normal(16).astype("f8")}, "bias_n is of f64"),
    "step of a vector": ({"bias_n": normal(32)[::2]}, "bias_n of 16 has strides (2,)"),
    "type of a matrix": ({"residual": GOOD["residual"].astype("f8")}, "residual is of f64"),
    "distance of a matrix": ({"residual": normal(9, 20)[:, :16]}, "ld_residual = 20, but this kernel is built for"),
    "step": ({"a": normal(9, 32)[:, ::2]}, "A of 9 x 16 has strides (32, 2)"),
    "distance": ({"a": normal(9, 20)[:, :16]}, "lda = 20, but this kernel is built for lda = 16"),
    "distance of C": ({"out": normal(9, 20)[:, :16]}, "ldc = 20, but this kernel is built for ldc = 16"),
    "order": ({"b": normal(16, 16).T}, "B of 16 x 16 has strides (1, 16)"),
    "read-only": ({"out": frozen(GOOD["out"])}, "C is written, and its array is read-only"),
    "device": ({"a": replace(VIEW, device="cuda", ordinal=0)}, "A is on cuda:0: the emulator reads arrays of the host"),
    "dimensions": ({"a": normal(9, 1, 16)}, "A is 9 x 1 x 16: this kernel takes it as M x K"),
    "vector": ({"bias_n": normal(9)}, "bias_n is 9: this launch takes 16"),
    "no operand": ({"bias_n": None}, "bias_n is no array"),
    "unknown operand": ({"scale_a": normal(1)}, "no argument is called scale_a"),
    "limit": (
        {name: replace(view_of(name, GOOD[name]), shape=(SIZE_LIMIT + 1, 16)) for name in ("a", "out", "residual")},
        f"M = {SIZE_LIMIT + 1} exceeds {SIZE_LIMIT}",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_does_not_fit_is_refused_behind_calls_that_did(native, name: str) -> None:
    if native and name == "read-only":
        pytest.skip("torch knows no array that is read-only")
    change, message = BAD[name]
    first, later = kernel_of(SQUARE), kernel_of(SQUARE, native)
    for rows in (9, 8, 7, 1):
        good = {key: one[:rows] if len(one) == 9 else one for key, one in GOOD.items()}
        assert not isinstance(outcome(later, good), str)
        views = {key: view_of(key, one) for key, one in good.items()}  # which the limit's case has
        assert not isinstance(outcome(later, views), str)
    bad = GOOD | change
    assert outcome(later, bad) == outcome(first, bad)
    assert re.search(re.escape(message), outcome(later, bad))
    before = later._backend.taken
    assert not isinstance(outcome(later, GOOD), str)
    assert later._backend.taken == before + bool(native), "it takes calls that are known"


def counted(kernel: ArrayKernel, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    checks: list[Any] = []
    complete = kernel._checked
    monkeypatch.setattr(kernel, "_checked", lambda *given, **named: checks.append(given) or complete(*given, **named))
    return checks


def test_another_m_is_checked_no_further(native, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = kernel_of(SQUARE, native)
    checks = counted(kernel, monkeypatch)
    a, out, residual = (normal(5000, 16) for _ in range(3))
    for rows in range(2, 5000):
        case, _ = outcome(kernel, GOOD | {"a": a[:rows], "out": out[:rows], "residual": residual[:rows]})
        assert case.m == rows
    assert len(checks) == 1
    assert kernel._backend.taken == (4997 if native else 0)
    outcome(kernel, GOOD | {"a": a[:1], "out": out[:1], "residual": residual[:1]})
    assert len(checks) == 2, "strides of a single line say nothing"


def test_a_single_line_has_no_distance_to_another(native) -> None:
    later, first = kernel_of(SQUARE, native), kernel_of(SQUARE)
    wide, residual = normal(9, 20)[:, :16], GOOD["residual"]
    assert not isinstance(outcome(later, GOOD | {"a": wide[:1], "out": normal(1, 16), "residual": residual[:1]}), str)
    call = GOOD | {"a": wide}
    assert outcome(later, call) == outcome(first, call)
    assert "lda = 20" in outcome(later, call)


@pytest.mark.parametrize("name", ["columns", "batch"])
def test_another_m_is_checked_anew_where_the_check_depends_on_it(native, name: str, monkeypatch) -> None:
    kernel = kernel_of(SOURCES[name], native)
    checks = counted(kernel, monkeypatch)
    for rows in (2, 3, 2):
        a, b, out = normal(rows, 4), normal(4, 6), normal(rows, 6)
        call = (a, b, out) if name == "columns" else (a[None], b[None], out[None])
        first = np.asfortranarray(a) if name == "columns" else call[0]
        outcome(kernel, {"a": first, "b": call[1], "out": call[2]})
    assert len(checks) == 2


def test_a_product_of_no_k_has_the_rows_of_its_call(native) -> None:
    later, a, b, out = kernel_of(SOURCES["any"], native), normal(9, 16), normal(16, 8), normal(9, 8)
    for rows in (4, 4, 3, 1, 9, 3):
        call = {"a": a[:rows, :0], "b": b[:0], "out": out[:rows]}
        assert outcome(later, call) == outcome(kernel_of(SOURCES["any"]), call)
    assert later._backend.taken == (2 if native else 0)


def test_operands_overlap_by_the_rows_of_their_call(native) -> None:
    """In one buffer, where C begins behind 8 rows of A, or A behind 8 of C."""
    later, both = kernel_of(SQUARE, native), normal(40, 16)
    for first, second in (("a", "out"), ("out", "a"), ("residual", "out"), ("out", "residual")):
        for rows in (4, 9, 8, 7, 10, 2):
            fitting = {key: one[:rows] if len(one) == 9 else one for key, one in GOOD.items()}
            fitting |= {"a": normal(rows, 16), "residual": normal(rows, 16), "out": normal(rows, 16)}
            call = fitting | {first: both[:rows], second: both[8:][:rows]}
            found = outcome(later, call)
            assert found == outcome(kernel_of(SQUARE), call)
            assert isinstance(found, str) == (rows > 8), found


def test_a_new_c_has_the_rows_of_its_call(native) -> None:
    kernel = kernel_of(SQUARE, native)
    given = {name: Tensor.of(one) if native else one for name, one in GOOD.items()}
    for rows in (9, 4, 1, 7):
        found = kernel(given["a"][:rows], given["b"], bias_n=given["bias_n"], residual=given["residual"][:rows])
        assert found.shape == (rows, 16)
    assert kernel._backend.taken == (2 if native else 0)


def product(native: Any = None) -> tuple[ArrayProduct, dict[str, ArrayKernel]]:
    """One kernel for up to 4 rows of dense lines at addresses of whole chunks, a longer one, and one for any call."""
    small, large = (
        source_of(Problem(None, 16, 16, typical={"M": m}, pointer_align=align)) for m, align in ((4, 4), (400, 16))
    )
    any_call = source_of(Problem(None, None, None, **EDGES))
    rules = (
        Rule(Needs.DENSE, Box(most=(4, *Box().most[1:])), (0,), ((4, 16, 16),)),
        Rule(Needs.DENSE, Box(), (1,), ((5, 16, 16),)),
        Rule(Needs.NONE, Box(), (2,), ((5, 16, 16),)),
    )
    loaded: dict[str, ArrayKernel] = {}

    def load(source: KernelSource) -> ArrayKernel:
        name = next(name for name, one in kernels.items() if one is source)
        loaded[name] = kernel_of(source, native)
        if name == "large":  # as a kernel that copies A first
            loaded[name].__dict__["rows_of"] = frozenset()
        return loaded[name]

    kernels = {"small": small, "large": large, "any": any_call}
    return ArrayProduct("linear", kernels, rules, load, "cpu"), loaded


def test_the_rows_of_a_product_are_the_calls_where_its_general_kernel_copies_a(native, program) -> None:
    """Each check of the copying kernel is of one M, and the kernels that rules choose leave M open."""
    sources = {"one": source_of(Problem(None, 16, 16)), "any": program("rr", "f32,f32,f32")}
    dense = Rule(Needs.DENSE, Box(), (0,), ((5, 16, 16),))
    loaded: list[ArrayKernel] = []

    def load(source: KernelSource) -> ArrayKernel:
        loaded.append(kernel_of(source, native))
        return loaded[-1]

    linear = ArrayProduct("linear", sources, (dense, Rule(Needs.NONE, Box(), (1,), ((5, 16, 16),))), load, "cpu")
    a, b, wide = normal(9, 16), normal(16, 16), normal(9, 20)[:, :16]
    for of in (a, wide, a):
        for rows in (9, 9, 4, 4, 1, 1, 5, 9, 2, 4):
            for kernel in loaded:
                kernel._backend.log.clear()  # type: ignore[attr-defined]
            c = linear(*(Tensor.of(one) if native else one for one in (of[:rows], b)))
            ((found, case),) = (
                (kernel.source, case)
                for kernel in loaded
                for case, _ in kernel._backend.log  # type: ignore[attr-defined]
            )
            assert case.m == rows and c.shape == (rows, 16)
            assert found is sources["one" if of is a or rows == 1 else "any"]
    assert bool(sum(kernel._backend.taken for kernel in loaded)) == bool(native)  # type: ignore[attr-defined]


def test_a_products_kernel_follows_from_each_call(native, monkeypatch: pytest.MonkeyPatch) -> None:
    linear, loaded = product(native)
    decisions: list[Any] = []
    choose = linear._choose
    monkeypatch.setattr(linear, "_choose", lambda *given: decisions.append(given) or choose(*given))
    a, b, out = normal(9, 16), normal(16, 16), normal(9, 16)

    def launched(call: dict[str, Any]) -> list[tuple[str, int]]:
        for kernel in loaded.values():
            kernel._backend.log.clear()  # type: ignore[attr-defined]
        linear(**{name: Tensor.of(one) if native else one for name, one in call.items()})
        found = ((name, one._backend.log) for name, one in loaded.items())  # type: ignore[attr-defined]
        return [(name, case.m) for name, log in found for case, _ in log]

    for _ in range(2):
        for rows in (9, 4, 1, 5, 3):
            wanted = "small" if rows <= 4 else "large"
            assert launched({"a": a[:rows], "b": b, "out": out[:rows]}) == [(wanted, rows)]
            assert launched({"a": aside(a[:rows]), "b": b, "out": out[:rows]}) == [("any", rows)]
            assert launched({"a": normal(rows, 20)[:, :16], "b": b}) == [("small" if rows == 1 else "any", rows)]
    # For C, one more of each kernel that operands come to which lie in a way that is known.
    assert len(decisions) == 3 * 5 + (2 if native else 0)
    assert sum(one._backend.taken for one in loaded.values()) == (14 if native else 0)
    for change in ({"out": out[:8]}, {"a": a[:, ::2]}, {"b": b[1:]}, {"out": a}):
        call = {"a": a, "b": b, "out": out} | change
        with pytest.raises(InvalidInput) as later:
            linear(**call)
        with pytest.raises(InvalidInput) as first:
            product()[0](**call)
        assert str(later.value) == str(first.value)
