"""A certificate, checked again: the hashes of the files, then `verify` with the certificate's seed and examples."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from gemmgen.artifacts.certificate import executor_document
from gemmgen.artifacts.kernelfile import read_record, reading, rendered_again, source_from_record
from gemmgen.artifacts.records import Document, verdict_document
from gemmgen.kernel.source import KernelSource
from gemmgen.run.target import DeviceChoice, Target, open_target
from gemmgen.support.errors import CandidateFailed, InvalidInput, require, whole
from gemmgen.support.files import Store, generator_digest, sha256
from gemmgen.verification.verifier import Verdict, verify
from gemmgen.verification.with_nvrtc import check_cuda


@dataclass(frozen=True)
class Difference:
    """Between the certificate and what is found now: SHA-256 of a file (None where there is none), or a figure."""

    what: str
    certified: Any
    found: Any


@dataclass(frozen=True)
class Certificate:
    """A certificate as it stands in a file, and the kernel beside it.

    source        with the text that is there now, if any
    changed       files that are not as certified
    verification  what the certificate says that `verify` found, of `examples` and `seed`; None where nothing ran
    executor      what ran it: name, description, flags, environment
    generator     digest of the gemmgen that verified it
    arch          what it was made for
    """

    path: Path
    source: KernelSource
    changed: tuple[Difference, ...]
    verification: Document | None
    examples: int
    seed: int
    executor: Document
    generator: str
    not_shown: list[str]
    arch: str

    @property
    def rendered(self) -> bool:
        """Whether this version of gemmgen renders the same text."""
        try:
            return rendered_again(self.source, self.arch) == self.source
        except (InvalidInput, ZeroDivisionError):  # a config that this version does not know, or refuses
            return False


@dataclass(frozen=True)
class Recheck:
    """What came out. Nothing runs, and all of it stays empty, where a file changed or the certificate shows nothing.

    executor     what ran the kernel now
    same         everything is the same that figures depend on: executor, compiler, machine, gemmgen
    differences  the figures that are not
    """

    certificate: Certificate
    verdict: Verdict | None = None
    executor: Document | None = None
    same: bool = False
    differences: tuple[Difference, ...] = ()

    @property
    def stands(self) -> bool:
        """The files are as certified, and the kernel passes, under the same conditions with the same figures."""
        passed = self.verdict is not None and self.verdict.passed
        return passed and not self.certificate.changed and not (self.same and self.differences)


def read_certificate(path: Path) -> Certificate:
    """The certificate at `path` and the kernel beside it.

    Raises InvalidInput where it is no certificate, says too little or contradicts itself.
    """
    record = read_record(path)
    source = source_from_record(record, path)
    with reading(path, "a certificate"):
        files, asked, executor, verification = (
            record[name] for name in ("files", "certified", "executor", "verification")
        )
        found = {name: _content(path.parent, name) for name in files}
        changed = tuple(_differences(files, {name: _hash(data) for name, data in found.items()}))
        text = (found[record["kernel_file"]] or b"")[: whole("kernel_bytes", record["kernel_bytes"], least=1)]
        contradicts = not changed and sha256(text) != record["sha256"]
        require(not contradicts, f"sha256 is not that of the first {len(text)} bytes of {record['kernel_file']}")
        return Certificate(
            path,
            replace(source, text=text.decode(errors="replace")),
            changed,
            None if verification is None else dict(verification),
            examples=whole("certified.examples", asked["examples"], least=0),
            seed=whole("certified.seed", asked["seed"], least=0),
            executor={name: executor[name] for name in ("name", "description", "flags", "environment")},
            generator=record["generator"]["digest"],
            not_shown=list(record["not_shown"]),
            arch=str(record["arch"]),
        )


def open_certified(certificate: Certificate, device: DeviceChoice, store: Store) -> Target:
    """Where to check: for "auto" the executor that was certified, where it is to be had here.

    Raises CandidateFailed: unavailable.
    """
    if device == "auto":
        name: DeviceChoice = "gpu" if certificate.executor["name"] == "gpu" else "emulator"
        with suppress(CandidateFailed):
            return open_target(name, "auto", store)
    return open_target(device, "auto", store)


def recheck(certificate: Certificate, target: Target, on_example: Callable[[], None] = lambda: None) -> Recheck:
    """Verify the kernel as the certificate says that it was verified, and compare."""
    executor, source, seed = target.executor, certificate.source, certificate.seed
    cuda = check_cuda(source, certificate.arch, executor.store) if target.gpu is None else None
    if cuda is not None and cuda.failure is not None:
        verdict = cuda.verdict(executor.name, seed)
    else:
        verdict = verify(executor, source, examples=certificate.examples, seed=seed, on_example=on_example)
    here = executor_document(executor)
    same = (certificate.executor["environment"], certificate.generator) == (here["environment"], generator_digest())
    found = json.loads(json.dumps(verdict_document(verdict)))  # as JSON would have it
    return Recheck(certificate, verdict, here, same, tuple(_differences(certificate.verification or {}, found)))


def recheck_document(result: Recheck) -> Document:
    """A recheck as JSON-ready data."""
    certificate = result.certificate
    return {
        "certificate": str(certificate.path),
        "name": certificate.source.name,
        "stands": result.stands,
        "changed": [asdict(one) for one in certificate.changed],
        "differences": [asdict(one) for one in result.differences],
        "verification": verdict_document(result.verdict),
        "executor": {"certified": certificate.executor, "here": result.executor, "same": result.same},
        "rendered_by_this_version": certificate.rendered,
        "not_shown": certificate.not_shown,
    }


def _differences(certified: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[Difference]:
    for what, value in found.items():
        if certified.get(what) != value:
            yield Difference(what, certified.get(what), value)


def _content(folder: Path, name: str) -> bytes | None:
    """Of a file beside the certificate; None where there is none."""
    require(Path(name).name == name and "\0" not in name, f"it names no file beside it: {name!r}")
    try:
        return (folder / name).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidInput(f"cannot read {folder / name}: {error.strerror}") from error


def _hash(data: bytes | None) -> str | None:
    return None if data is None else sha256(data)
