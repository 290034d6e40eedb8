"""The certificate of an exported kernel: what was shown of it, under which conditions, and what was not shown.

It is JSON. It holds the entries of NAME.json (`json_records.provenance`), which was known of the kernel before, without
single times, the limits of the card that measured, most results of earlier verifications, the command of a run of the
performance suite, and what readers assume or derive. It also holds:

certified     command, date, examples and seed of export's verification
verification  its result; null if none was asked for
executor      the executor with its flags; equal `environment` and generator `digest` give equal results
earlier       the verification in NAME.json: what ran, on what and when
not_shown     sentences about what a reader might believe to be shown but is not
sha256        SHA-256 of the kernel's text, which is `kernel_bytes` bytes of `kernel_file` from byte `kernel_start` on
files         SHA-256 of each exported file

`recheck.py` compares the files with it and verifies the kernel again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gemmgen.exports.json_records import (
    Document,
    Origin,
    compiled_document,
    kernel_document,
    provenance,
    verdict_document,
)
from gemmgen.exports.kernelfile import KernelFile
from gemmgen.exports.record_form import shortened
from gemmgen.exports.record_reading import problem_from
from gemmgen.families import plan_of
from gemmgen.kernel.model import predict
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import DeviceSpec
from gemmgen.problem.gemm import Problem
from gemmgen.run.compile import CompiledKernel
from gemmgen.run.coverage import coverage_from
from gemmgen.run.executor import Executor
from gemmgen.search.trial import Trial
from gemmgen.support.files import generator_digest, sha256
from gemmgen.support.stamp import gemmgen_version, now
from gemmgen.verification.checks import SAMPLE_TILES
from gemmgen.verification.data import LARGE_EFFORT, effort
from gemmgen.verification.sanitizers.tool import TOOLS
from gemmgen.verification.situation import ALL_DATA_KINDS, RUNTIME_SIZES
from gemmgen.verification.verifier import DEFAULT_EXAMPLES, Verdict

LARGE_EXAMPLES = 20  # where one situation takes seconds
LEFT_OUT = ("parameters", "gemmgen", "emulator", "sanitizers", "deterministic", "suite")  # of NAME.json, as such
BENCH = ("cublaslt", "speedup")  # what stays of the comparison with cuBLASLt,
BASELINE = ("kind", "us", "version")  # and of its time
MEASURED_DIGITS = 6  # of a time, which repeats to two or three
PROTOCOL = ("protocol", "samples", "launches_per_sample", "date")  # what stays of how a time was measured
EARLIER = ("passed", "executor", "examples", "seed", "sampled", "worst_error_over_bound")  # what stays of the last one
NO_EXECUTOR: Document = {
    "name": "none",
    "description": "nothing ran",
    "flags": [],
    "environment": None,
    "unconfined": [],
}


@dataclass(frozen=True)
class Shown:
    """The results of export's checks of a kernel before it is written; None for a check that did not run.

    executor  an `executor_document`
    """

    compiled: CompiledKernel | None = None
    verdict: Verdict | None = None
    executor: Document | None = None


def certificate_name(kernel: str) -> str:
    return f"{kernel}.certificate.json"


def certificate_of(source: KernelSource, record: Mapping[str, Any], files: Mapping[str, bytes]) -> Document:
    """Complete `record`, made by `certified_record`, with the description of `source` and with all hashes."""
    file, text = f"{source.name}.cu", source.text.encode()
    names = {
        **shortened(kernel_document(source)),
        "kernel_file": file,
        "kernel_start": files[file].index(text),
        "kernel_bytes": len(text),
        "files": {name: sha256(data) for name, data in files.items()},
    }
    return {**record, **names}


def examples_to_certify(problem: Problem) -> int:
    """The default number of situations for a certificate."""
    usual = {name.lower(): RUNTIME_SIZES[-1] for name in "MNK" if name in problem.runtime_names}
    if problem.batch is None:
        usual["batch"] = 1  # a batch that is drawn stays small where one product is large
    return LARGE_EXAMPLES if effort(problem.case(**usual)) > LARGE_EFFORT else DEFAULT_EXAMPLES


def known_record(kernel: KernelFile) -> Document | None:
    """NAME.json, if it belongs to exactly this text and names its architecture."""
    usable = kernel.record is not None and "arch" in kernel.record and not kernel.edited
    return dict(kernel.record or {}) if usable else None


def certified_record(
    kernel: KernelFile, arch: str, spec: DeviceSpec, shown: Shown, *, command: str, examples: int, seed: int
) -> Document:
    """A certificate without its hashes, which follow from the files. `examples` and `seed` are the requested ones."""
    source = kernel.source
    known = known_record(kernel)
    if known is None:
        trial = Trial(source, plan := plan_of(source), predict(plan, spec), shown.compiled)
        known = provenance(trial, Origin.unrun(arch, spec, command))
    record = {
        **_brief(known, source.problem),
        **shortened(kernel_document(source)),
        "edited": kernel.edited,
        "arch": arch,
        "resources": compiled_document(shown.compiled),
        "compiler": shown.compiled.compiler if shown.compiled else None,
        "generator": {"version": gemmgen_version(), "digest": generator_digest()},
        "executor": shown.executor or NO_EXECUTOR,
        "verification": verdict_document(shown.verdict),
        "earlier": _earlier(known),
        "certified": {"command": command, "date": now(), "examples": examples, "seed": seed},
    }
    return {**record, "not_shown": list(not_shown(record))}


def _earlier(known: Mapping[str, Any]) -> Document | None:
    """The earlier verification in the record; None if there was none."""
    found = known.get("verification")
    if not found:
        return None
    return {"verification": _only(found, EARLIER), **{name: known.get(name) for name in ("executor", "date")}}


def _brief(known: Mapping[str, Any], problem: Problem) -> Document:
    """The record of a kernel of `problem`, without entries that a certificate leaves out."""
    brief = {name: value for name, value in known.items() if name not in LEFT_OUT}
    if "suite" in known:
        brief.pop("command", None)
    if "time" in known:
        left_out = ("samples_us", "conditions", *(() if problem.runtime_names else ("gbs", "case")))
        brief["time"] = {name: _rounded(value) for name, value in known["time"].items() if name not in left_out}
        if "protocol" in known["time"]:
            brief["time"]["protocol"] = _only(known["time"]["protocol"], PROTOCOL)
    if "bench" in known:
        brief["bench"] = _only(known["bench"], BENCH)
        if brief["bench"].get("cublaslt"):
            brief["bench"]["cublaslt"] = _only(brief["bench"]["cublaslt"], BASELINE)
    return brief


def _only(entries: Mapping[str, Any], names: Sequence[str]) -> Document:
    return {name: entries[name] for name in names if name in entries}


def _rounded(value: Any) -> Any:
    """`value`, rounded to MEASURED_DIGITS if it is a float."""
    return float(f"{value:.{MEASURED_DIGITS}g}") if isinstance(value, float) else value


def executor_document(executor: Executor) -> Document:
    """The executor as a document: card and driver, or NVRTC; its flags; a key for all that its results depend on.

    It also lists missing guards between the kernel's text and the machine: see `Executor.unconfined`.
    """
    return {
        "name": executor.name,
        "description": executor.description,
        "flags": list(executor.flags),
        "environment": executor.environment,
        "unconfined": list(executor.unconfined),
    }


def not_shown(record: Mapping[str, Any]) -> Iterator[str]:
    """Sentences about what a reader might believe to be shown but is not; each follows from a fact in `record`."""
    verification = record["verification"]
    if verification is None:
        yield "that it is right: nothing was run for this certificate"
    else:
        yield from _not_drawn(problem_from(record["problem"]), verification)
        yield from _not_watched(verification)
        yield from _not_repeated(verification["determinism"])
        yield from _not_covered(verification)
        yield from (f"that it ends on every GPU: {one}" for one in verification.get("assumes", ()))
    yield from _not_on_gpu(verification, record["earlier"])
    if record["resources"] is None:
        yield f"that it compiles for {record['arch']}: no CUDA compiler ran"
    yield "that the launcher and the self-test work: export builds neither"
    if (record.get("time") or {}).get("kind") != "measured":
        yield "how fast it is: the time is the model's prediction"


def _not_drawn(problem: Problem, verification: Mapping[str, Any]) -> Iterator[str]:
    domain = verification["domain"]
    yield f"situations other than the {verification['examples']} that were run"
    free = [name for name in problem.runtime_names if name in domain["sizes"]]
    if free:
        ranges = ", ".join(f"{name} from {domain['sizes'][name][0]} to {domain['sizes'][name][1]}" for name in free)
        yield f"sizes outside of {ranges}; inside, those that are not among the {domain['shapes']} shapes drawn"
    for distances, what in ((problem.line_sizes, "lines"), (problem.stride_sizes, "matrices")):
        free = [name for name in distances if name in problem.runtime_names]
        if free:
            most = max(domain["padding"].get(name, (0, 0))[1] for name in free)
            far = ", but for one situation with offsets beyond 2^31" if domain.get("extent") else ""
            yield f"{', '.join(free)} that exceed their {what} by more than {most} elements{far}"
    if problem.pointers:
        yield "matrices A, or B, that overlap"
    alphas, betas = (", ".join(f"{value:g}" for value in domain[name]) for name in ("alphas", "betas"))
    others = ", ".join(f"{name} in {count} situations" for name, count in domain.get("scalars", {}).items())
    yield f"alpha other than {alphas}; beta other than {betas}{f'; and than one {others}' if others else ''}"
    missing = [kind for kind in ALL_DATA_KINDS if kind not in domain["data"]]
    if missing:
        yield f"data of these kinds: {', '.join(missing)}"
    if domain["sampled"]:
        largest = domain["largest_whole"]
        whole = "none ran whole" if largest is None else f"the largest that ran whole is {largest}"
        once = f"; {domain['grid']}" if domain.get("grid") else ""
        part = f"the blocks of {SAMPLE_TILES} tiles of each ran, {whole}{once}"
        yield f"whole grids in {domain['sampled']} situations: {part}"


def _not_watched(verification: Mapping[str, Any]) -> Iterator[str]:
    domain = verification["domain"]
    situations = domain["whole"] + domain["sampled"]
    unwatched, partly = situations - domain["watched"], domain["watched_part"]
    if verification["executor"] == "gpu":
        raced = any(result["tool"] == "racecheck" for result in verification["sanitizers"])
        kind = (
            "on global memory: racecheck watches shared memory"
            if raced
            else "that happened to do no harm: a GPU does not watch"
        )
        yield f"data races {kind}"
    elif unwatched:
        largest = domain["largest_watched"]
        whole = "none was watched as a whole" if largest is None else f"the largest watched as a whole is {largest}"
        yield f"data races in {unwatched} of {situations} situations, {partly} of them watched in some blocks; {whole}"
    yield from _not_sanitized(verification["sanitizers"])


def _not_sanitized(results: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    ran = [result["tool"] for result in results]
    missing = [tool for tool in TOOLS if tool not in ran]
    if missing:
        tools = f"'s {', '.join(missing)}" if ran else ""
        yield f"what compute-sanitizer{tools} would find: it was not run"
    for result in results:
        part = ", of each launch its first blocks" if result["sampled"] else ""
        yield f"what {result['tool']} would find beyond the {result['situations']} situations that it watched{part}"


def _not_repeated(determinism: Mapping[str, Any] | None) -> Iterator[str]:
    if determinism is None:
        yield "that every run gives the same bits: none was repeated"
    elif determinism["blocks"] < determinism["grid"]:
        yield f"the same bits in a whole launch: {determinism['blocks']} of {determinism['grid']} blocks were repeated"


def _not_covered(verification: Mapping[str, Any]) -> Iterator[str]:
    covered = verification["coverage"]
    if covered is None:
        yield "which lines and branches of the kernel ran: they were not counted"
        return
    never = list(coverage_from(covered).never())
    if never:
        yield f"what the kernel computes where it never ran: {'; '.join(never)}"


def _not_on_gpu(verification: Mapping[str, Any] | None, earlier: Mapping[str, Any] | None) -> Iterator[str]:
    before = None if earlier is None else earlier["verification"]
    if verification is not None and verification["executor"] == "gpu":
        return
    if before is not None and before.get("executor") == "gpu":
        yield f"more on a GPU than the earlier verification there, of {before.get('examples')} situations"
    else:
        yield "that it is right on a GPU: none ran it"
