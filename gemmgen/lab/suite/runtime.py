"""The step "measure" for run-time M: a library per product, timed at many M against cuBLASLt's best."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, astuple, dataclass, replace
from functools import cache
from typing import Any

from gemmgen.exports.json_records import Document, problem_document
from gemmgen.exports.kernelfile import reading
from gemmgen.exports.library.building import Options, certify, make_choice
from gemmgen.exports.library.choice import Choice
from gemmgen.exports.library.choices_json import choice_again, choice_document
from gemmgen.exports.library.members import Member, Needs, case_of, hopeful
from gemmgen.exports.library.spec import Product
from gemmgen.exports.record_form import shortened
from gemmgen.families import config_of
from gemmgen.lab.runtime_m import VALUES, problem_of
from gemmgen.lab.runtime_page import COLUMNS, LibraryScore, Row, failure_path, read_score, result_path
from gemmgen.lab.suite.plan import ROW_FAILS, ShapeOutcome, State, SuitePlan, search_digest
from gemmgen.lab.suite.timing import gpu_of
from gemmgen.problem.device import DeviceSpec
from gemmgen.run.compile import compile_kernel, compile_many
from gemmgen.run.gpu.executor import GpuExecutor, GpuKernel
from gemmgen.run.gpu.timing import BEST, FINAL, LIBRARY
from gemmgen.run.target import Target
from gemmgen.search.trial import Progress
from gemmgen.support.errors import CandidateFailed, Failure, GemmgenError, InvalidInput
from gemmgen.support.files import PACKAGE, Store, code_digest, content_key, write_atomic
from gemmgen.support.jsontext import json_text
from gemmgen.support.scratch import scratch_folder
from gemmgen.support.stamp import gemmgen_version, now

MADE = "libraries"  # the kind of entries of a store that hold libraries which were made, and maybe not timed
SEARCH = ("search/explorer.py", "search/kernel_set.py", "search/many_sizes.py")


@dataclass(frozen=True)
class _Library:
    """A verified library.

    document  its entries for the record: the choice, the verdicts, the making
    made      digest of the code that made it
    """

    choice: Choice
    document: Document
    made: str


def measure_products(plan: SuitePlan, target: Target, store: Store, on_done: Callable[[ShapeOutcome], None]) -> None:
    """Make and time the library of each product that has none on file; `on_done` receives each outcome.

    With a budget of 0 the libraries on file are rendered, verified and timed again, without a search.
    """
    for product in plan.products:
        if plan.late:
            return
        on_done(_measured(product, plan, target, store))


@cache
def library_digest() -> str:
    """One key for all code that decides which kernels a library holds and when each is chosen."""
    modules = sorted((PACKAGE / "exports" / "library").glob("*.py"))
    names = (path.relative_to(PACKAGE).as_posix() for path in modules)
    return content_key(search_digest(), code_digest(*SEARCH, *names))


def _measured(product: Product, plan: SuitePlan, target: Target, store: Store) -> ShapeOutcome:
    started = time.monotonic()
    before = _on_file(product, plan)
    if before is not None and not plan.again and _stands(before, product, plan, target):
        return _outcome(product, "on file", started, before)
    failure = failure_path(plan.folder, product.name)
    try:
        library = _made(product, plan, target, store) if plan.budget else _again(product, before, plan, target, store)
        rows, version = _timed(library.choice, gpu_of(target), target.spec, store)
        document = _document(product, library, rows, version, plan, gpu_of(target))
        write_atomic(result_path(plan.folder, product.name), f"{json_text(document)}\n")
    except ROW_FAILS as error:
        reason = str(error) or type(error).__name__
        said = {"product": product.name, "reason": reason, "card": gpu_of(target).properties.name}
        write_atomic(failure, f"{json_text({**said, 'command': plan.command, 'date': now()})}\n")
        return replace(_outcome(product, "failed", started), reason=reason)
    failure.unlink(missing_ok=True)
    return _outcome(product, "done", started, _on_file(product, plan))


def _outcome(product: Product, state: State, started: float, score: LibraryScore | None = None) -> ShapeOutcome:
    ratio = score.geomean if score else None
    return ShapeOutcome("measure", problem_of(product), state, time.monotonic() - started, product.name, ratio)


def _on_file(product: Product, plan: SuitePlan) -> LibraryScore | None:
    """The result for a product on this card; None if there is no readable one."""
    with suppress(InvalidInput):
        return read_score(result_path(plan.folder, product.name))
    return None


def _stands(known: LibraryScore, product: Product, plan: SuitePlan, target: Target) -> bool:
    """Whether this code made the library, or timed it if the budget is 0, and timed it here at today's values of M."""
    code = known.record["suite"]["made" if plan.budget else "timed"]
    here = known.card == gpu_of(target).properties.name
    same = known.problem == problem_of(product) and tuple(row.m for row in known.rows) == VALUES
    return bool(here and same and code == library_digest())


def _made(product: Product, plan: SuitePlan, target: Target, store: Store) -> _Library:
    """Make a new library, without the cache, so that the time is that of making it. Raises GemmgenError.

    `store` has it afterwards: a run that was interrupted before all was timed goes on with it.
    """
    problem, card = str(problem_of(product)), gpu_of(target).properties
    key = content_key(library_digest(), product.name, problem, card.name, card.driver)
    kept = None if plan.again else store.get(MADE, key)
    if kept is not None:
        document = json.loads(kept)
        return _Library(_rendered(product, document["choice"], target, store), document, library_digest())
    started = time.monotonic()
    with scratch_folder() as folder:
        options = Options(command=plan.command)
        choice, certificates = make_choice(product, target, Store(folder), options, Progress())
    making = {"seconds": round(time.monotonic() - started, 1), "date": now()}
    document = {"making": making, "verified": _verified(certificates), "choice": choice_document(choice)}
    store.put(MADE, key, json_text(document).encode())
    return _Library(choice, document, library_digest())


def _again(product: Product, before: LibraryScore | None, plan: SuitePlan, target: Target, store: Store) -> _Library:
    """Render the library on file with today's templates, and verify it. Raises GemmgenError."""
    if before is None:
        raise GemmgenError(f"no library of {product.name} is on file, and a budget of 0 searches for none")
    with reading(result_path(plan.folder, product.name)):
        choice = _rendered(product, before.record["choice"], target, store)
    certificates = certify(choice.kernels, target, store, Options(command=plan.command), Progress())
    kept = {"sets": before.record["choice"]["sets"]}
    document = {
        "making": before.record["making"],
        "verified": _verified(certificates),
        "choice": {**choice_document(choice), **kept},
    }
    return _Library(choice, document, before.record["suite"]["made"])


def _rendered(product: Product, document: Document, target: Target, store: Store) -> Choice:
    """The choice that a record holds, with kernels rendered by today's templates and compiled."""
    known = choice_again(product, document)
    members, rivals = (_compiled(some, target, store) for some in (known.kernels, known.rivals))
    return replace(known, members=members, rivals=rivals)


def _compiled(members: Sequence[Member], target: Target, store: Store) -> tuple[Member, ...]:
    compile_many([one.source for one in members], target.arch, store)
    return tuple(replace(one, compiled=compile_kernel(one.source, target.arch, store)) for one in members)


def _verified(certificates: Mapping[str, Document]) -> Document:
    """The number of situations in which each kernel passed, by its name."""
    return {name: (one["verification"] or {}).get("examples", 0) for name, one in certificates.items()}


def _timed(choice: Choice, gpu: GpuExecutor, spec: DeviceSpec, store: Store) -> tuple[list[Row], str | None]:
    """Return a row per M, and the version of cuBLASLt, None if it has no kernel. Raises CandidateFailed."""
    with ExitStack() as stack:
        loaded: dict[str, GpuKernel] = {}
        for one in (*choice.kernels, *choice.rivals):
            compiled = one.compiled or compile_kernel(one.source, gpu.arch, store)
            loaded[one.name] = kernel = gpu.load_compiled(one.source, compiled)
            stack.callback(kernel.close)
        found = [_row(m, choice, loaded, gpu, spec) for m in VALUES]
    return [row for row, _ in found], next((version for _, version in found if version), None)


def _row(
    m: int, choice: Choice, loaded: Mapping[str, GpuKernel], gpu: GpuExecutor, spec: DeviceSpec
) -> tuple[Row, str | None]:
    """Time the chosen kernel, the fastest of all that the model does not rule out, and cuBLASLt's best, in one run.

    The fastest are chosen in earlier runs, because the minimum of dozens of times in one run is lower than in another
    run. The call's operands are aligned and dense.
    """
    product, given = choice.product, Needs.ALIGNED | Needs.DENSE
    sizes = m, product.n.listed[0], product.k.listed[0]
    chosen = choice.members[choice.chosen(sizes, given)].name
    able = [one for one in (*choice.kernels, *choice.rivals) if one.serves(sizes, given)]
    names = [*dict.fromkeys((*hopeful(able, sizes, spec), chosen))]
    case = case_of(product, sizes, given)
    before, _ = gpu.measure_many([loaded[one] for one in names], case, LIBRARY).steady_us()
    _, best = min(zip(before, names, strict=True))
    measured = gpu.measure_many([loaded[one] for one in dict.fromkeys((chosen, best))], case, FINAL, beside=BEST)
    for one in measured.timings:
        if isinstance(one, Failure):
            raise CandidateFailed(one)
    us, library_us = measured.steady_us()
    row = Row(m, _rounded(us[0]), chosen, _rounded(us[-1]), best, None, None, None)
    if measured.baseline is None or library_us is None:
        return row, None
    ratio, algorithm = _rounded(library_us / us[0]), measured.baseline.choice
    return replace(row, library_us=_rounded(library_us), algorithm=algorithm, ratio=ratio), measured.baseline.version


def _rounded(value: float) -> float:
    return round(value, 4)


def _document(
    product: Product, library: _Library, rows: Sequence[Row], version: str | None, plan: SuitePlan, gpu: GpuExecutor
) -> Document:
    """The contents of NAME.json."""
    choice = library.choice
    document: dict[str, Any] = {
        "product": product.name,
        "problem": problem_document(problem_of(product)),
        "card": gpu.properties.name,
        "driver": gpu.properties.driver,
        "compiler": next(one.compiled.compiler for one in choice.kernels if one.compiled is not None),
        "cublaslt": version,
        "gemmgen": gemmgen_version(),
        "command": plan.command,
        "date": now(),
        "suite": {"made": library.made, "timed": library_digest()},
        "protocols": [asdict(LIBRARY), asdict(FINAL)],
        "configs": {one.name: _config(one) for one in (*choice.kernels, *choice.rivals)},
        "columns": COLUMNS,
        "rows": [astuple(row) for row in rows],
        **library.document,
    }
    return shortened(document)


def _config(member: Member) -> str:
    family, config = config_of(member.source)
    return f"{family.name} {config}"
