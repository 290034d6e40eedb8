"""A certificate, checked again. It believes nothing that it can check:

the files have its hashes; it claims a pass, with the same bits in every run; launcher, header, self-test and build
files are what gemmgen renders; `verify` passes with its seed and examples, and with a seed of the check's own.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from gemmgen.exports.certificate import examples_to_certify, executor_document, not_shown
from gemmgen.exports.folder import folder_texts
from gemmgen.exports.json_records import Document, verdict_document
from gemmgen.exports.kernelfile import read_record, reading, source_from_record
from gemmgen.exports.other_compilers import Edit, edits, first_edit, macros_of_launcher
from gemmgen.exports.stated_contract import only_promised, require_agreement
from gemmgen.kernel.conditionals import Conditional, conditionals
from gemmgen.kernel.source import KernelSource
from gemmgen.render.rerender import rendered_or_none
from gemmgen.run.target import DeviceChoice, Target, open_target
from gemmgen.support.errors import CandidateFailed, InvalidInput, require, whole
from gemmgen.support.files import Store, generator_digest, sha256
from gemmgen.verification.determinism import RUNS
from gemmgen.verification.verifier import Verdict, verify
from gemmgen.verification.with_nvrtc import check_cuda

SEEDS = 2**32  # of which a check draws its own


@dataclass(frozen=True)
class Difference:
    """A difference between the certificate and what is found now: the SHA-256 of a file (None if there is none), or a
    figure."""

    what: str
    certified: Any
    found: Any


@dataclass(frozen=True)
class Unmet:
    """A claim of a certificate that differs from what the certificate of a right kernel must claim."""

    claim: str
    certified: Any
    required: Any


@dataclass(frozen=True)
class Certificate:
    """A certificate in a file, and the kernel beside it.

    source        the kernel with the text that is there now, if any
    first         the text's first line in its file
    changed       files that differ from the certified ones
    edits         files that differ from what this version of gemmgen renders; in the kernel's own text only macros for
                  the launcher count: see `other_compilers.macros_of_launcher`
    unmet         claims about the kernel that certify nothing
    verification  the certified result of `verify` with `examples` and `seed`; None if nothing ran
    executor      the executor: name, description, flags, environment
    generator     digest of the gemmgen version that verified it
    arch          the architecture that it was made for
    record        the whole certificate
    """

    path: Path
    source: KernelSource
    first: int
    changed: tuple[Difference, ...]
    edits: tuple[Edit, ...]
    unmet: tuple[Unmet, ...]
    verification: Document | None
    examples: int
    seed: int
    executor: Document
    generator: str
    not_shown: list[str]
    arch: str
    record: Document

    @property
    def runs(self) -> bool:
        """Whether nothing speaks against the certificate so far, so that its kernel should run."""
        return self.verification is not None and not (self.changed or self.edits or self.unmet)

    @cached_property
    def rendered(self) -> KernelSource | None:
        """The kernel as this version of gemmgen renders it; None for a config that it does not know, or refuses."""
        return rendered_or_none(self.source, self.arch)

    @property
    def only_promised(self) -> tuple[str, ...]:
        """The facts about arguments that only the certificate gives: see `stated_contract.only_promised`."""
        return only_promised(self.source)

    @property
    def kernel_edit(self) -> Edit | None:
        """The first difference between the kernel's text, or launch, and what this version renders; None if there is
        none."""
        if self.rendered == self.source:
            return None
        file = f"{self.source.name}.cu"
        if self.rendered is None or self.rendered.text == self.source.text:
            return Edit(file, 0, None, None)
        return first_edit(file, self.source.text, self.rendered.text, self.first)


@dataclass(frozen=True)
class Recheck:
    """The result of a recheck. If the certificate is already refuted, nothing runs and the rest is empty.

    executor     the executor that ran the kernel now
    same         whether all that figures depend on is the same: executor, compiler, machine, gemmgen
    differences  the figures that differ
    own          the verdict in situations that the certificate could not know; None if it failed before
    """

    certificate: Certificate
    verdict: Verdict | None = None
    executor: Document | None = None
    same: bool = False
    differences: tuple[Difference, ...] = ()
    own: Verdict | None = None

    @property
    def wrong(self) -> Verdict | None:
        """The verdict in which the kernel failed, if any."""
        return next((one for one in (self.verdict, self.own) if one is not None and not one.passed), None)

    @cached_property
    def unseen(self) -> tuple[Conditional, ...]:
        """Lines that a user's compiler may read differently from NVRTC, whose program ran."""
        return tuple(one.moved(self.certificate.first - 1) for one in conditionals(self.certificate.source.text))

    @property
    def stands(self) -> bool:
        """Whether all of its text was judged and passes twice, with the same figures under the same conditions.

        If something speaks against it before, `own` stays None.
        """
        return self.passes and not self.unseen

    @property
    def passes(self) -> bool:
        """Whether the judged part of its text passes twice, with the same figures under the same conditions."""
        return self.own is not None and self.own.passed and not (self.same and self.differences)


def read_certificate(path: Path) -> Certificate:
    """The certificate at `path` and the kernel beside it.

    Raises InvalidInput if it is not a certificate, is incomplete or contradicts itself.
    """
    record = read_record(path)
    require(
        "library" not in record,
        f"{path} is of a library: `gemmgen verify {path.parent}/KERNEL.cu` tests one of its kernels",
    )
    source = source_from_record(record, path)
    with reading(path, "a certificate"):
        files, asked, executor, verification = (
            record[name] for name in ("files", "certified", "executor", "verification")
        )
        for name, digest in files.items():
            require(isinstance(digest, str), f"files: {name!r} = {digest!r:.100} is no hash of a file")
        found = {name: _content(path.parent, name) for name in files}
        changed = tuple(_differences(files, {name: _hash(data) for name, data in found.items()}))
        start = whole("kernel_start", record["kernel_start"], least=0)
        end = start + whole("kernel_bytes", record["kernel_bytes"], least=1)
        content = found[record["kernel_file"]] or b""
        text, first = content[start:end], content.count(b"\n", 0, start) + 1
        contradicts = not changed and sha256(text) != record["sha256"]
        require(not contradicts, f"sha256 is not that of bytes {start} to {end} of {record['kernel_file']}")
        source = replace(source, text=text.decode(errors="replace"))
        if not changed:
            require_agreement(source, path)
        arch, claims = str(record["arch"]), None if verification is None else dict(verification)
        examples = whole("certified.examples", asked["examples"], least=0 if claims is None else 1)
        seed = whole("certified.seed", asked["seed"], least=0)
        return Certificate(
            path,
            source,
            first,
            changed,
            () if changed else tuple(_edits(path.parent, source, arch, first)),
            () if claims is None else tuple(unmet_claims(claims, executor["name"], examples, seed)),
            claims,
            examples,
            seed,
            executor={name: executor[name] for name in ("name", "description", "flags", "environment")},
            generator=record["generator"]["digest"],
            not_shown=list(record["not_shown"]),
            arch=arch,
            record=record,
        )


def unmet_claims(verification: Mapping[str, Any], executor: str, examples: int, seed: int) -> Iterator[Unmet]:
    """Yield the claims about `verify` on `executor` that cannot hold for a kernel that passed.

    examples, seed  the numbers that the certificate says were requested
    """
    determinism = verification.get("determinism")
    bits = determinism if isinstance(determinism, Mapping) else {}
    required = {
        "passed": (verification.get("passed"), True),
        "failure": (verification.get("failure"), None),
        "executor": (verification.get("executor"), executor),
        "seed": (verification.get("seed"), seed),
        "determinism.same_bits": (bits.get("same_bits"), True),
        "determinism.difference": (bits.get("difference"), None),
    }
    for claim, (certified, value) in required.items():
        if type(certified) is not type(value) or certified != value:  # 1 is not True
            yield Unmet(claim, certified, value)
    for claim, certified, least, most in (
        ("examples", verification.get("examples"), 1, examples),
        ("determinism.runs", bits.get("runs"), RUNS, None),
    ):
        if type(certified) is not int or certified < least or (most is not None and certified > most):
            yield Unmet(claim, certified, f"{least} or more" if most is None else f"{least} to {most}, as was asked")


def open_certified(certificate: Certificate, device: DeviceChoice, store: Store) -> Target:
    """The target of the check: with "auto" the executor that was certified, if it is available here.

    Raises CandidateFailed: unavailable.
    """
    if device == "auto":
        name: DeviceChoice = "gpu" if certificate.executor["name"] == "gpu" else "emulator"
        with suppress(CandidateFailed):
            return open_target(name, "auto", store)
    return open_target(device, "auto", store)


def recheck(
    certificate: Certificate,
    target: Target,
    *,
    examples: int | None = None,
    seed: int | None = None,
    on_example: Callable[[], None] = lambda: None,
) -> Recheck:
    """Verify the kernel again as the certificate says, and compare; then verify it with a seed of its own.

    examples  situations with that seed (None: `certificate.examples_to_certify`)
    seed      None: a new one each time, so that no certificate can be made for it
    """
    executor, source = target.executor, certificate.source
    cuda = check_cuda(source, certificate.arch, executor.store) if target.gpu is None else None
    if cuda is not None and cuda.failure is not None:
        verdict = cuda.verdict(executor.name, certificate.seed)
    else:
        verdict = verify(executor, source, examples=certificate.examples, seed=certificate.seed, on_example=on_example)
    here = executor_document(executor)
    same = (certificate.executor["environment"], certificate.generator) == (here["environment"], generator_digest())
    found = json.loads(json.dumps(verdict_document(verdict)))  # as JSON would have it
    result = Recheck(certificate, verdict, here, same, tuple(_figures(certificate, verdict, found)))
    if not verdict.passed:
        return result
    count = examples_to_certify(source.problem) if examples is None else examples
    drawn = secrets.randbelow(SEEDS) if seed is None else seed
    return replace(result, own=verify(executor, source, examples=count, seed=drawn, on_example=on_example))


def recheck_document(result: Recheck) -> Document:
    """A recheck as JSON-ready data."""
    certificate = result.certificate
    return {
        "certificate": str(certificate.path),
        "name": certificate.source.name,
        "stands": result.stands,
        "changed": [asdict(one) for one in certificate.changed],
        "edits": [asdict(one) for one in certificate.edits],
        "unmet": [asdict(one) for one in certificate.unmet],
        "only_promised": list(certificate.only_promised),
        "not_judged": [[one.first, one.last] for one in result.unseen],
        "differences": [asdict(one) for one in result.differences],
        "verification": verdict_document(result.verdict),
        "own_verification": verdict_document(result.own),
        "executor": {"certified": certificate.executor, "here": result.executor, "same": result.same},
        "rendered_by_this_version": certificate.kernel_edit is None,
        "not_shown": certificate.not_shown,
    }


def _edits(folder: Path, source: KernelSource, arch: str, first: int) -> Iterator[Edit]:
    """Yield the edited files. Raises InvalidInput for a kernel that has no such files."""
    rendered, again, kernel = folder_texts(source, arch, folder), rendered_or_none(source, arch), f"{source.name}.cu"
    yield from edits({name: _content(folder, name) for name in rendered}, rendered)
    launcher = rendered[kernel].replace(source.text, "", 1) + rendered[f"{source.name}.h"]
    yield from macros_of_launcher(kernel, source.text, "" if again is None else again.text, launcher, first)


def _figures(certificate: Certificate, verdict: Verdict, found: Document) -> Iterator[Difference]:
    """Yield the figures of the certificate's verification, and the sentences derived from it, that are not
    reproduced."""
    yield from _differences(certificate.verification or {}, found)
    if verdict.passed:
        with reading(certificate.path, "a certificate"):
            sentences = list(not_shown({**certificate.record, "verification": found}))
        yield from _differences({"not_shown": certificate.not_shown}, {"not_shown": sentences})


def _differences(certified: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[Difference]:
    for what, value in found.items():
        if certified.get(what) != value:
            yield Difference(what, certified.get(what), value)


def _content(folder: Path, name: str) -> bytes | None:
    """The contents of a file beside the certificate; None if there is none."""
    require(Path(name).name == name and "\0" not in name, f"it names no file beside it: {name!r}")
    try:
        return (folder / name).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidInput(f"cannot read {folder / name}: {error.strerror}") from error


def _hash(data: bytes | None) -> str | None:
    return None if data is None else sha256(data)
