"""A library's folder as functions of arrays: its rules choose among its kernels, as its dispatcher in C does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial, reduce
from operator import or_
from pathlib import Path
from typing import Any, NamedTuple, get_args

from gemmgen.arrays.backend import Backend, Plan
from gemmgen.arrays.binding import Prepared
from gemmgen.arrays.checked import Checked
from gemmgen.arrays.kernel import ArrayKernel, Shortcut
from gemmgen.arrays.loaded import LOADED, Traced, forget
from gemmgen.arrays.view import Device
from gemmgen.exports.library.choice import Rule
from gemmgen.exports.library.choices_json import by_product, rule_from
from gemmgen.exports.library.members import NAME as CUBLASLT
from gemmgen.exports.library.members import Needs
from gemmgen.exports.library.spec import CHUNK
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import DEFAULT_ARCH
from gemmgen.problem.gemm import Case
from gemmgen.problem.matrix import Matrix
from gemmgen.problem.sizes import MatrixSizes
from gemmgen.run.gpu import why_no_device
from gemmgen.run.target import DeviceChoice
from gemmgen.support.errors import CandidateFailed, Failure, InvalidInput, require
from gemmgen.support.files import Store, content_key

MOST_ROUTES = 1 << 14  # routes that are kept per `Checked`: one per M, which a server changes with each call

LAUNCHES = "launches"  # the key of those of fastcall.c by M, among a form's


class Route(NamedTuple):
    """The route of calls to a product: a kernel, the result of its own check, and M if that leaves it open."""

    kernel: ArrayKernel
    known: Checked
    rows: int | None


class ArrayProduct:
    """One product of a library on one architecture, called like an `ArrayKernel`, for any sizes.

    A kernel is loaded when the first call goes to it.
    """

    def __init__(
        self,
        name: str,
        kernels: Mapping[str, KernelSource],
        rules: tuple[Rule, ...],
        load: Callable[..., ArrayKernel],
        device: Device,
    ) -> None:
        """Take the product's kernels and rules; `load` loads a kernel for arrays on `device`."""
        self.name, self._kernels, self._rules, self._load = name, kernels, rules, load
        self._names = tuple(kernels)  # by their places in rules
        self.device = device
        self._loaded: dict[str, ArrayKernel] = {}
        self._shortcut = Shortcut()
        self._serves_all = min(kernels, key=self._asks)
        key = content_key(*sorted(one.digest for one in kernels.values()))
        self.traced = Traced.of(self.source, f"{name} {key[:16]} {device}")
        LOADED[self.traced.identity] = self

    def __call__(
        self,
        a: Any,
        b: Any,
        out: Any = None,
        *,
        alpha: float = 1.0,
        beta: float = 0.0,
        stream: Any = None,
        **operands: Any,
    ) -> Any:
        """Compute C, or the epilogue, by the kernel that the rules choose: see `ArrayKernel.__call__`."""
        c = self._shortcut.call(a, b, out, alpha, beta, stream, operands)
        if c is not NotImplemented:
            return c
        known, rows, addresses, c = self._general.seen(a, b, out, alpha, beta, operands)
        route = self._route(known, rows, addresses, (a, b, c, alpha, beta, operands))
        route.kernel.launch(route.known, route.rows, addresses, a, stream)
        route.kernel.wrote(known, out, operands)
        if LAUNCHES not in known.forms and route.kernel.direct(route.known) is not None:
            launches = known.forms[LAUNCHES] = {}
            way = launches, partial(self._launch_for, known, launches), CHUNK
            self._shortcut.learn(self._general, known, (a, b, out, alpha, beta, operands), *way)
        return c

    def plan(self, a: Any, b: Any, out: Any = None, *, alpha: float = 1.0, beta: float = 0.0, **operands: Any) -> Plan:
        """Make a plan for the kernel that the rules choose: see `ArrayKernel.plan`."""
        require("stream" not in operands, "a plan takes its stream when it is called: plan(stream=...)")
        kernel, c = self._chosen_for(a, b, out, alpha, beta, operands)
        return kernel.plan(a, b, c, alpha=alpha, beta=beta, **operands)

    def pack_b(self, codes: Any, scales: Any, zeros: Any = None, *, stream: Any = None) -> Prepared:
        """Pack B's codes, once for all kernels of the product: see `ArrayKernel.pack_b`."""
        return self._general.pack_b(codes, scales, zeros, stream=stream)

    def prepared_b(self, array: Any, shape: tuple[int, ...]) -> Prepared:
        """The result of `pack_b` for B of this `shape`, from the `array` that held it: see `ArrayKernel.prepared_b`."""
        return self._general.prepared_b(array, shape)

    def kernel_for(
        self, a: Any, b: Any, out: Any = None, *, alpha: float = 1.0, beta: float = 0.0, **operands: Any
    ) -> ArrayKernel:
        """The kernel to which a call with these arguments goes."""
        return self._chosen_for(a, b, out, alpha, beta, operands)[0]

    @property
    def source(self) -> KernelSource:
        """The source of the kernel that serves every call."""
        return self._kernels[self._serves_all]

    @property
    def sources(self) -> tuple[KernelSource, ...]:
        """The sources of all kernels that the rules may choose."""
        return tuple(self._kernels.values())

    @property
    def identity(self) -> str:
        """A key like an `ArrayKernel`'s."""
        return self.traced.identity

    def close(self) -> None:
        forget(self.identity, self)
        self._shortcut.close()
        for kernel in (*self._loaded.values(), *filter(None, [vars(self).pop("_general", None)])):
            kernel.close()
        self._loaded.clear()

    def __repr__(self) -> str:
        return f"<product {self.name}: {self.source.problem}, by {len(self._kernels)} kernels>"

    @cached_property
    def _general(self) -> ArrayKernel:
        """The kernel that serves every call, used only for checks: another object of it launches its calls.

        Checks leave M open even if its own launches copy A first.
        """
        kernel = self._load(self._kernels[self._serves_all])
        kernel.checks_alone = True
        return kernel

    def _asks(self, name: str) -> tuple[int, int, int]:
        """The demands of a kernel on calls, as a sortable key: the kernel that serves every call has the least."""
        problem = self._kernels[name].problem
        return problem.pointer_align, problem.ld_align, -len(problem.runtime_names)

    def _chosen_for(self, a: Any, b: Any, *given: Any) -> tuple[ArrayKernel, Any]:
        """Return (the kernel to which a call goes, C); `given` as `ArrayKernel.seen` takes it."""
        known, rows, addresses, c = self._general.seen(a, b, *given)
        return self._route(known, rows, addresses, (a, b, c, *given[1:])).kernel, c

    def _route(self, known: Checked, rows: int | None, addresses: Sequence[int], call: tuple[Any, ...]) -> Route:
        """The route of a call that the general kernel has checked; routes are kept in `known.forms`, by M."""
        if known.empty:  # which kernels of fixed sizes refuse, and for which nothing of a kernel is launched
            return Route(self._general, known, rows)
        located = reduce(or_, addresses) % CHUNK == 0
        routes: dict[tuple[int | None, bool], Route] = known.forms.setdefault("routes", {})
        found = routes.get((rows, located))
        if found is None:
            if len(routes) >= MOST_ROUTES:
                routes.clear()
            found = routes[rows, located] = self._routed(self._choose(known, rows, located), known, rows, call)
        found.known.require_addresses(addresses, found.rows)
        return found

    def _launch_for(self, known: Checked, launches: dict[int, Any], rows: int) -> Any:
        """Return the launch of fastcall.c for `rows` rows (0: those of `known`) at addresses of whole chunks.

        None if no kernel was called so before: then the complete path takes the call. The launch is kept in `launches`.
        """
        routes: dict[tuple[int | None, bool], Route] = known.forms["routes"]
        found = routes.get((rows or None, True))
        if found is None and known.by_rows:
            kernel = self._choose(known, rows, True)
            own = known.forms.get(kernel)
            if own is not None:
                found = routes[rows, True] = Route(kernel, own, rows)
        launch = None
        with suppress(LookupError):  # planned, perhaps, and launched by no call
            launch = None if found is None else found.kernel.direct(found.known)
        if launch is not None:
            if len(launches) >= MOST_ROUTES:
                launches.clear()
            launches[rows] = launch
        return launch

    def _routed(self, kernel: ArrayKernel, known: Checked, rows: int | None, call: tuple[Any, ...]) -> Route:
        """A call's route to `kernel`, by that kernel's own check; it holds for each M if both leave M open."""
        own: Checked | None = known.forms.get(kernel)
        if own is not None:
            return Route(kernel, own, rows)
        own, own_rows, *_ = kernel.seen(*call)
        if own.by_rows and known.by_rows:
            known.forms[kernel] = own
        return Route(kernel, own, own_rows)

    def _choose(self, known: Checked, rows: int | None, located: bool) -> ArrayKernel:
        """The kernel that the rules choose for `rows` rows; `located`: whether CHUNK bytes divide all addresses."""
        case = known.case
        rules: list[Rule] | None = known.forms.get(("rules", located))
        if rules is None:  # the same for each M that `known` leaves open
            given = kept(case) if located else Needs.NONE
            rules = known.forms["rules", located] = [one for one in self._rules if one.needs in given]
        sizes = case.m if rows is None else rows, case.n, case.k
        batch = case.batch if case.problem.batch is None else 1  # groups are the same number in every call
        for rule in rules:
            if rule.box.holds(sizes):
                return self._kernel(self._names[rule.kernel(sizes, batch)])
        raise InvalidInput(f"{self.name} has no rule for {known.at(rows)}")

    def _kernel(self, name: str) -> ArrayKernel:
        if name not in self._loaded:
            self._loaded[name] = self._load(self._kernels[name])
        return self._loaded[name]


class UnknownProduct(InvalidInput, KeyError):
    """A library has no product of this name."""

    __str__ = Exception.__str__  # KeyError's quotes the message


class ArrayLibrary(dict[str, ArrayProduct]):
    """The products of a library by name. It is a context manager: leaving it frees what its kernels hold."""

    def __missing__(self, name: str) -> ArrayProduct:
        """Raise UnknownProduct."""
        raise UnknownProduct(f"the library has no product {name!r}: known are {', '.join(self)}")

    def __repr__(self) -> str:
        return f"<library of {', '.join(self)}>"

    def close(self) -> None:
        for product in self.values():
            product.close()

    def __enter__(self) -> ArrayLibrary:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def kept(case: Case) -> Needs:
    """The conditions that a launch meets whose addresses are divisible by CHUNK bytes: see `Needs`."""
    problem = case.problem
    unit = CHUNK // min(dtype.size for dtype in problem.types.operands)
    lines = [(one.ld, max(1, one.line_length)) for one in _by(problem.matrices, case)]
    apart = [(one.stride, one.lines * one.ld) for one in _by(problem.strides, case)]
    aligned = all(found % unit == 0 for found, _ in (*lines, *apart))
    dense = all(found == least for found, least in (*lines, *apart))
    return (Needs.ALIGNED if aligned else Needs.NONE) | (Needs.DENSE if dense else Needs.NONE)


def _by(sizes: Sequence[MatrixSizes], case: Case) -> list[Matrix]:
    """The matrices with these sizes, one for each leading dimension."""
    return [*{one.ld: case.tensors[one.name] for one in sizes}.values()]


def read_library(folder: Path, arch: str, load: Callable[..., ArrayKernel], device: Device) -> ArrayLibrary:
    """The library in `folder` for a device of `arch` ("sm_90"), whose kernels `load` loads for arrays on `device`.

    Raises InvalidInput if there is none, or none for this architecture.
    """

    def product(choice: Any, kernel: Callable[[str], KernelSource]) -> ArrayProduct:
        """Leave out the rules of cuBLASLt, whose calls go to the kernels of later rules."""
        kernels = {one["name"]: kernel(one["name"]) for one in choice["kernels"] if one["name"] != CUBLASLT}
        rules = (rule_from(document, [*kernels]) for document in choice["rules"])
        return ArrayProduct(choice["product"], kernels, tuple(rule for rule in rules if rule.kernels), load, device)

    return ArrayLibrary(by_product(folder, arch, product))


def load_source(source: KernelSource, device: DeviceChoice, store: Store) -> ArrayKernel:
    """`source` for arrays on `device`; see `gemmgen.load`."""
    _require_device(device)
    return ArrayKernel(source, _backend(source, device, store))


def load_library(folder: Path, device: DeviceChoice, store: Store) -> ArrayLibrary:
    """The library in `folder` for arrays on `device`; see `gemmgen.load_library`."""
    _require_device(device)
    place: Device = "cpu" if _emulates(device) else "cuda"
    return read_library(folder, _arch(device), lambda source: load_source(source, device, store), place)


def _require_device(device: DeviceChoice) -> None:
    """Raise InvalidInput for an unknown device, and CandidateFailed: unavailable, for a GPU that is not there."""
    known = get_args(DeviceChoice)
    require(device in known, f"unknown device {device!r}: known are {', '.join(known)}")
    missing = why_no_device()
    if device in ("gpu", "cuda") and missing is not None:
        raise CandidateFailed(Failure("unavailable", missing, "gpu"))


def _arch(device: DeviceChoice) -> str:
    """The architecture of the first GPU, or the one that the emulator stands for."""
    if _emulates(device):
        return DEFAULT_ARCH
    from gemmgen.arrays.form import arch_here  # as below

    return arch_here()


def _emulates(device: DeviceChoice) -> bool:
    return device == "emulator" or why_no_device() is not None


def _backend(source: KernelSource, device: DeviceChoice, store: Store) -> Backend:
    if _emulates(device):
        from gemmgen.arrays.emulated import EmulatedBackend

        return EmulatedBackend(source, store)
    from gemmgen.arrays.card import CardBackend  # the driver's bindings take a while

    return CardBackend(source, store)
