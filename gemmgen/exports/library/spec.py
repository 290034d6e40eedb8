"""SPEC.toml: the products that a library computes, with their sizes and architectures.

    name = "mylinear"
    architectures = ["sm_80", "sm_90a"]

    [[product]]
    name = "linear"          # of its function mylinear_linear; by default what it computes
    types = "bf16"           # of A, B and C, as --types takes them; --compute and --layout likewise
    layout = "rc"
    M = "1..8192"            # a size, a list of sizes, a range, or "?": any
    N = 4096
    K = [4096, 11008]
    epilogue = "bias+gelu"   # scales and zero points are epilogues: "scale_m+scale_n"
    batch = 1                # or the number of products for which kernels are chosen, or "?": the function serves any

Kernels are chosen for the given sizes; every product serves all other sizes as well, except that B of codes
(`inputs`) is packed before for its one N and K. docs/library-file.md has every key.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from itertools import product as combinations
from pathlib import Path
from typing import Any

from gemmgen.exports.kernelfile import read_text
from gemmgen.exports.library.sizes import LARGE, SizeRange, spread
from gemmgen.exports.names import taken_by
from gemmgen.kernel.headers import in_headers, used_by
from gemmgen.problem.device import parse_arch
from gemmgen.problem.epilogue import LINEAR, Epilogue, parse_epilogue
from gemmgen.problem.gemm import Problem
from gemmgen.problem.inputs import PLAIN, QUANTISED, Inputs
from gemmgen.problem.matrix import ROW_MAJOR, Layout
from gemmgen.problem.sizes import RUNTIME, parse_shape
from gemmgen.problem.types import F32_TYPES, Compute, Types
from gemmgen.support.errors import InvalidInput, require, whole

CHUNK = 16  # bytes of the widest access
LONGEST_NAME = 40  # characters, so that what is made of it stays readable
MOST_KERNELS = 40  # per set, unless the file says how many
SPREAD = 48  # sizes for which kernels are tuned where more than one of M, N and K is a range
TYPICAL_BATCH = 64  # products, where their number is "?"
BATCHES, OTHER_BATCHES = (8, 64, 512), (3, 24, 200)  # for which kernels are then chosen, and those of regret
BATCH_BYTES = 2**30  # of the operands of a batch that is timed, where its number is "?"
# C++'s keywords that a C identifier of users could be, and macros of its headers, are for the compiler to refuse.
IDENTIFIER = r"[a-z][a-z0-9_]*"


@dataclass(frozen=True)
class Search:
    """The target of one search: what kernels are tuned for.

    problems  one per size; they differ only in their typical sizes, so that each kernel serves all of them
    counts    False for a kernel that only serves the calls that no other kernel serves: it gets a smaller budget
    """

    problems: tuple[Problem, ...]
    counts: bool = True


@dataclass(frozen=True)
class Product:
    """One product of a library. Raises InvalidInput if no kernel can compute it.

    name     the name of its function, after the library's
    m, n, k  sizes for which kernels are chosen; it serves all others
    batch    for a batch, the number of products for which kernels are chosen, else None
    varies   whether the number of products is "?": kernels are chosen for any number, and `batch` is a typical one
    kernels  `.cu` files to choose from; if there are none, kernels are tuned
    most     most kernels per set: there is one set per combination of listed N and K, and one for all other sizes
    tune     sizes (M, N, K) to tune kernels for; if there are none, some of m, n and k
    invariant  whether the bits of a row of C are the same whatever M is, and wherever the row stands: all kernels are
               of one class of summation
    inputs   how A and B are given: as --inputs says it. With groups of rows M is the number of all rows, with masked
             groups that of each, along K it is K that counts all groups; with images M, or K of a gradient, is the
             number of places of all of them
    """

    name: str
    types: Types
    layout: Layout
    m: SizeRange
    n: SizeRange
    k: SizeRange
    epilogue: Epilogue = LINEAR
    batch: int | None = None
    varies: bool = False
    pointers: bool = False
    kernels: tuple[Path, ...] = ()
    most: int = MOST_KERNELS
    tune: tuple[tuple[int, int, int], ...] = ()
    invariant: bool = False
    inputs: Inputs = PLAIN

    def __post_init__(self) -> None:
        _require_name("the product", self.name)
        require(self.batch is None or self.batch >= 1, f"batch = {self.batch}: a batch has at least one product")
        if self.packed:
            sizes = f"N = {self.n} and K = {self.k}"
            one = len(self.n.listed) == len(self.k.listed) == 1
            require(one, f"{sizes}: codes of {self.types.b.label} are packed for one N and one K: write numbers")
        else:
            conv = self.inputs.conv
            depth = conv.depth if conv else 0
            name, given = ("N", self.n) if self.inputs.wgrad else ("K", self.k)
            filters = conv is None or given.listed == (depth,)
            require(filters, f"{name} = {given}, and inputs = {self.inputs} have filters of {depth}")
        unlike = f"inputs = {self.inputs}: their equal rows are not compared, so that invariant = true means nothing"
        require(not (self.invariant and self.moved), unlike)
        assert self.general is not None  # Problem checks the rest

    @property
    def packed(self) -> bool:
        """Whether B has codes, which are packed before: N and K are then the same in every call, and addresses and
        lines are of whole chunks."""
        return self.inputs.coded

    @property
    def moved(self) -> bool:
        """Whether the device looks for rows of A, for B or for C: by groups, an index or the places of filters."""
        return self.inputs.groups > 0 or self.inputs.by_index or self.inputs.conv is not None

    @property
    def whole_chunks(self) -> bool:
        """Whether addresses and lines of all calls are of whole chunks, as no kernel takes others."""
        return self.packed or self.moved

    @property
    def matrices_c(self) -> int:
        """Matrices C of a call for which sizes are chosen: the products of a batch, or groups with a C each."""
        return self.batch or (self.inputs.groups if self.inputs.own_c else 1)

    @cached_property
    def general(self) -> Problem:
        """The problem that every call may ask for: any sizes, with lines and addresses of whole elements, or chunks."""
        return self._problem(pointer_align=self.element_bytes)

    def aligned(self, m: int, n: int, k: int) -> Problem:
        """The problem of any sizes, tuned for these, with addresses and lines of whole chunks."""
        typical = {"M": m, "N": n, "K": k}
        return self._problem(ld_align=self.unit, pointer_align=self._align, typical=typical)

    def fixed(self, m: int, n: int, k: int) -> Problem:
        """The aligned problem with fixed N and K, those of weights."""
        return self._problem(n=n, k=k, ld_align=self.unit, pointer_align=self._align, typical={"M": m})

    def _problem(self, n: int | None = None, k: int | None = None, **values: Any) -> Problem:
        typical = values.pop("typical", {}) | ({} if self.batch is None else {"batch": self.batch})
        if self.whole_chunks:
            values |= {"ld_align": self.unit, "pointer_align": self._align}
        if self.packed:
            (n,), (k,) = self.n.listed, self.k.listed
            typical = {name: size for name, size in typical.items() if name == "M"}
        if self.inputs.conv is not None:
            n, k = (self.inputs.conv.depth, k) if self.inputs.wgrad else (n, self.inputs.conv.depth)
            fixed = "N" if self.inputs.wgrad else "K"
            typical = {name: size for name, size in typical.items() if name != fixed}
        fields: dict[str, Any] = {
            "types": self.types,
            "inputs": self.inputs,
            "layout": self.layout,
            "epilogue": self.epilogue,
            "batch": 1 if self.batch is None else None,
            "pointers": self.pointers,
            "typical": typical,
            **values,
        }
        problem = Problem(None, n, k, **fields)
        distances = (*problem.line_sizes, *(one.stride for one in problem.strides))
        fields |= dict.fromkeys(name for name in distances if not (self.packed and name in ("ldb", "stride_b")))
        return Problem(None, n, k, **fields)

    @property
    def unit(self) -> int:
        """The number of elements that divides leading dimensions and strides of whole chunks, for all types."""
        return CHUNK // self.element_bytes

    @property
    def element_bytes(self) -> int:
        """Bytes of the smallest element; codes are read where they are packed, and by no call."""
        a, b, c = self.types.operands
        return min(dtype.size for dtype in ((a, c) if self.packed else (a, b, c)))

    @property
    def _align(self) -> int:
        """The alignment of aligned addresses in bytes. The dispatcher does not read the contents of arrays of
        pointers."""
        return self.element_bytes if self.pointers else CHUNK

    @property
    def ranges(self) -> tuple[SizeRange, SizeRange, SizeRange]:
        return self.m, self.n, self.k

    def at(self, place: int, sizes: tuple[int, int, int], batches: Sequence[int] = BATCHES) -> Product:
        """The product with the batch of the point `place`: `batches` in turn, if the number of products is "?"."""
        if not self.varies:
            return self
        one = self._problem(typical={}).case(m=sizes[0], n=sizes[1], k=sizes[2], batch=1)
        return replace(self, batch=max(1, min(batches[place % len(batches)], BATCH_BYTES // one.bytes_moved)))

    def searches(self, sms: int) -> Iterator[Search]:
        """Yield what to tune kernels for on a card of `sms` SMs; the kernel for all calls comes first.

        Where codes are packed, every kernel serves all calls; groups of rows have one that serves all N and K.
        """
        middle = m, n, k = tuple(one.nearest(LARGE) for one in self.ranges)
        batch = {} if self.batch is None else {"batch": self.batch}
        general = self._problem(pointer_align=self.element_bytes, typical={"M": m, "N": n, "K": k, **batch})
        if not self.whole_chunks:
            yield Search((general,), counts=False)
        sizes = self.tune or self._tuned(sms)
        weights = dict.fromkeys((n, k) for _, n, k in sizes if n in self.n.listed and k in self.k.listed)
        for n, k in weights:
            some = [size for size in sizes if size[1:] == (n, k)]
            yield Search(tuple(self.at(place, size).fixed(*size) for place, size in enumerate(some)))
        left = [size for size in sizes if size[1:] not in weights]
        others = tuple(self.at(place, size).aligned(*size) for place, size in enumerate(left))
        if others:
            yield Search(others)
        if self.n.listed and self.k.listed and not self.packed:
            yield Search((self.aligned(*middle),), counts=False)

    def _tuned(self, sms: int) -> tuple[tuple[int, int, int], ...]:
        """Sizes for which kernels are tuned: along the range if there is one, spread over them if there are more."""
        if sum(not one.listed for one in self.ranges) > 1:
            return tuple(spread(self.ranges, SPREAD))
        ms = self.m.tuned(self.n.nearest(LARGE) * self.matrices_c, sms)
        ns = self.n.tuned(self.m.nearest(LARGE) * self.matrices_c, sms)
        ks = self.k.ladder()  # tiles do not divide K: no size of it needs another wave
        return tuple(combinations(ms, ns, ks))


@dataclass(frozen=True)
class Spec:
    """A library, as described in SPEC.toml.

    architectures  "sm_80", "sm_90a": each has its own kernels
    """

    name: str
    architectures: tuple[str, ...]
    products: tuple[Product, ...]

    def __post_init__(self) -> None:
        _require_name("the library", self.name)
        use = taken_by(self.name) or used_by(self.name)
        require(use is None, f"{self.name!r} cannot name the library: {use}")
        require(bool(self.products), f"{self.name} has no [[product]]")
        names = [product.name for product in self.products]
        twice = sorted({name for name in names if names.count(name) > 1})
        require(not twice, f"two products are called {', '.join(twice)}: give each a name of its own")
        packed = (f"{one.name}_{what}" for one in self.products if one.packed for what in ("pack_b", "packed_bytes"))
        quantises = quantise_names() if any(one.inputs.blocks for one in self.products) else ()
        taken = {*OWN_NAMES, *(f"{name}_workspace_bytes" for name in names), *packed, *quantises}
        clashing = [name for name in names if name in taken]
        own = ", ".join(f"{self.name}_{name}" for name in clashing)
        require(not clashing, f"no product can be called {', '.join(clashing)}: the header has {own} of its own")
        own_names = [f"{self.name}_{name}" for name in sorted({*taken, *names})]
        defined = [one for name in own_names for one in (name, name.upper()) if in_headers(one)]
        require(not defined, f"headers of C or CUDA define {', '.join(defined)}: give library or product another name")
        for arch in self.architectures:
            parse_arch(arch)
        bare = [arch.rstrip("af") for arch in self.architectures]
        require(bool(bare), f'{self.name} has no architecture: write architectures = ["sm_90"]')
        again = sorted({one for one in bare if bare.count(one) > 1})
        require(not again, f"architectures = {', '.join(self.architectures)}: {', '.join(again)} is named twice")


def quantise_names() -> tuple[str, ...]:
    """The functions of a library that quantise, after its name."""
    return tuple(f"quantise_{what}_{dtype.label}" for what in ("rows", "squares") for dtype in QUANTISED)


def own_name(library: str, kernel: str) -> str:
    """The name of a kernel's files and symbols in a library.

    It is distinct because another library, or an export, may have the same kernel in the same program.
    """
    return f"{library}_{kernel}"


def read_spec(path: Path, arch: str) -> Spec:
    """Read the library that the file at `path` describes, for `arch` if it names no architectures.

    Raises InvalidInput that begins with the path, and before Python 3.11, which cannot read TOML.
    """
    try:
        toml = import_module("tomllib")
    except ModuleNotFoundError as error:
        version = sys.version.split()[0]
        raise InvalidInput(f"{path} is TOML, which Python reads from 3.11 on, and this is {version}") from error
    try:
        document = toml.loads(read_text(path))
    except ValueError as error:
        raise InvalidInput(f"{path} is no TOML: {error}") from error
    try:
        return spec_from(document, arch, path.parent)
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from error


def spec_from(document: Mapping[str, Any], arch: str, folder: Path) -> Spec:
    """The library that `document` describes; its file names are relative to `folder`. Raises InvalidInput."""
    _require_known("the library", document, LIBRARY_KEYS)
    products, architectures = document.get("product", []), document.get("architectures", [arch])
    require(isinstance(products, list), f"product = {products!r}: write [[product]] above each")
    require(isinstance(architectures, list), f'architectures = {architectures!r}: write a list, as ["sm_90"]')
    return Spec(
        _text("name", document.get("name", "")),
        tuple(_text("architectures", one) for one in architectures),
        tuple(_product(number, fields, folder) for number, fields in enumerate(products, 1)),
    )


# Names that the header declares behind the library's name, besides products; its guard is NAME_H.
OWN_NAMES = ("args", "gemm", "h", "kernel", "product", "refusal", "status_text", "workspace_bytes")
LIBRARY_KEYS = ("name", "architectures", "product")
KEYS = (
    "name",
    "types",
    "compute",
    "inputs",
    "layout",
    "M",
    "N",
    "K",
    "epilogue",
    "batch",
    "pointers",
    "kernels",
    "tune",
    "invariant",
)


def _product(number: int, fields: Mapping[str, Any], folder: Path) -> Product:
    require(isinstance(fields, Mapping), f"product = {fields!r}: write [[product]] above each")
    where = f"product {fields.get('name', number)}"
    _require_known(where, fields, KEYS)
    try:
        return _product_of(fields, folder)
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}") from error


def _product_of(fields: Mapping[str, Any], folder: Path) -> Product:
    missing = [name for name in "MNK" if name not in fields]
    require(not missing, f'no {", ".join(missing)}: write a size, a list, a range "1..8192" or "?" for each')
    compute = Compute.parse(_text("compute", fields.get("compute", Compute.FMA.label)))
    types = Types.parse(_text("types", fields.get("types", str(F32_TYPES))), compute)
    layout = Layout.parse(_text("layout", fields.get("layout", str(ROW_MAJOR))))
    pointers = fields.get("pointers", False)
    invariant = fields.get("invariant", False)
    for key, value in (("pointers", pointers), ("invariant", invariant)):
        require(isinstance(value, bool), f"{key} = {value!r}: known are true and false")
    m, n, k = (SizeRange.parse(name, fields[name]) for name in "MNK")
    tune = fields.get("tune", [])
    require(isinstance(tune, list), f'tune = {tune!r}: write a list, as ["64x4096x4096"]')
    return Product(
        _text("name", fields.get("name", f"{types.token}_{layout}")),
        types,
        layout,
        m,
        n,
        k,
        epilogue=parse_epilogue(_text("epilogue", fields.get("epilogue", str(LINEAR)))),
        batch=_batch(fields.get("batch", 1), pointers),
        varies=fields.get("batch") == RUNTIME,
        pointers=pointers,
        **_kernels(fields.get("kernels", []), folder),
        tune=tuple(_shape(one) for one in tune),
        invariant=invariant,
        inputs=Inputs.parse(_text("inputs", fields.get("inputs", str(PLAIN)))),
    )


def _kernels(value: object, folder: Path) -> dict[str, Any]:
    """The kernels: a list of files, or the largest number of kernels."""
    if isinstance(value, list):
        return {"kernels": tuple(folder / _text("kernels", one) for one in value)}
    require(
        isinstance(value, int) and not isinstance(value, bool) and value >= 1,
        f'kernels = {value!r}: write the most kernels per set, as 8, or a list of files, as ["NAME.cu"]',
    )
    return {"most": value}


def _batch(value: object, pointers: bool) -> int | None:
    if value == RUNTIME:
        return TYPICAL_BATCH
    require(not isinstance(value, str), f'batch = "{value}": write a number of products, or "?" for any')
    count = whole("batch", value)
    return None if count == 1 and not pointers else count


def _shape(value: object) -> tuple[int, int, int]:
    m, n, k = parse_shape(_text("tune", value))
    require(m is not None and n is not None and k is not None, f"tune = {value}: a kernel is tuned for numbers")
    return m or 0, n or 0, k or 0


def _text(name: str, value: object) -> str:
    require(isinstance(value, str), f"{name} = {value!r} is no text")
    return str(value)


def _require_known(where: str, fields: Mapping[str, Any], known: tuple[str, ...]) -> None:
    unknown = [name for name in fields if name not in known]
    require(not unknown, f"{where}: unknown {', '.join(unknown)}: known are {', '.join(known)}")


def _require_name(what: str, name: str) -> None:
    require(
        re.fullmatch(IDENTIFIER, name) is not None and len(name) <= LONGEST_NAME,
        f"{name!r} cannot name {what}: write a C identifier of lower case with at most {LONGEST_NAME} characters",
    )
