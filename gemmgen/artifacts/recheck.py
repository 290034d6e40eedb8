"""A certificate, checked again from scratch: are the files those that it names, and does the kernel do what it says?"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from gemmgen.artifacts.claims import executor_document
from gemmgen.artifacts.kernelfile import KernelFile, rendered_again, source_from_record
from gemmgen.artifacts.records import Document, verdict_document
from gemmgen.kernel.config import todays_words
from gemmgen.kernel.naming import full_name_of
from gemmgen.kernel.source import CONFIG, KernelSource
from gemmgen.run.target import DeviceChoice, Target, open_target
from gemmgen.support.errors import CandidateFailed, InvalidInput, require
from gemmgen.support.files import Store, generator_digest, sha256
from gemmgen.verification.verifier import Verdict, verify

FIGURES = ("examples", "worst_error_over_bound", "errors", "domain", "determinism")  # of a verification


@dataclass(frozen=True)
class Changed:
    """A file that is not as it was certified: both SHA-256; `found` is None where it is missing."""

    file: str
    certified: str
    found: str | None


@dataclass(frozen=True)
class Claim:
    """What the certificate says beside what came out now; `binding` where it has to be the same."""

    what: str
    certified: Any
    found: Any
    binding: bool

    @property
    def holds(self) -> bool:
        return self.found == self.certified or not self.binding


@dataclass(frozen=True)
class Certificate:
    """A certificate as it stands in a file, and the kernel beside it.

    source    with the text that is there now
    changed   the files, and the kernel in its file, that are not as certified
    examples  that the verification was asked for, with `seed`
    """

    path: Path
    record: Mapping[str, Any]
    source: KernelSource
    changed: tuple[Changed, ...]
    examples: int
    seed: int

    @property
    def executor(self) -> Mapping[str, Any]:
        """What ran it: name, description, flags, environment."""
        executor: Mapping[str, Any] = self.record["executor"]
        return executor


@dataclass(frozen=True)
class Recheck:
    """What came out.

    executor  what ran the kernel now
    same      everything is the same that results depend on: executor, compiler, machine, gemmgen
    rendered  this version of gemmgen renders the same text
    """

    certificate: Certificate
    rendered: bool
    verdict: Verdict | None = None
    executor: Mapping[str, Any] | None = None
    same: bool = False
    claims: tuple[Claim, ...] = ()

    @property
    def stands(self) -> bool:
        """The files are as certified, and the kernel does what the certificate says."""
        return bool(self.claims) and not self.certificate.changed and all(claim.holds for claim in self.claims)


def read_certificate(path: Path) -> Certificate:
    """The certificate at `path` and the kernel beside it.

    Raises InvalidInput where it is no certificate, says too little, contradicts itself, or has no kernel beside it.
    """
    record = _read_object(path)
    source = source_from_record(record, path)
    try:
        named = full_name_of(source)
    except InvalidInput as error:
        raise InvalidInput(f"{path} is of a kernel that this gemmgen does not know: {error}") from error
    file, length, files = _certified_files(record, path)
    kernel = path.parent / file
    try:
        text = kernel.read_bytes()[:length]
    except OSError as error:
        raise InvalidInput(f"{path} is of {file}, which cannot be read beside it: {error.strerror}") from error
    require(source.name.encode() in text, f"{path} is of another kernel: {kernel} has no function {source.name}")
    says = re.search(rf"^{CONFIG}(\w+)$".encode(), text, re.MULTILINE)
    config = todays_words(says[1].decode() if says else source.name)  # which was the full name once
    require(config == named, f"{path} contradicts its kernel, whose config is {config}: it says {named}")
    asked = record["certified"]
    return Certificate(
        path,
        record,
        replace(source, text=text.decode(errors="replace")),
        tuple(_changed(path.parent, files, f"{file}, its first {length} bytes", record["kernel_sha256"], text)),
        asked["examples"],
        asked["seed"],
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


def unrun(certificate: Certificate) -> Recheck:
    """The recheck of a certificate whose files changed, or that names no verification: nothing is to be run."""
    return Recheck(certificate, _is_rendered(certificate.source, certificate.record))


def recheck(certificate: Certificate, target: Target, on_example: Callable[[], None] = lambda: None) -> Recheck:
    """Verify the kernel as the certificate says that it was verified, and compare.

    That it is right, and whether it is deterministic, must come out anywhere; the figures must be the same to the
    last digit where everything is the same that they depend on.
    """
    executor = target.executor
    here = executor_document(executor)
    same = (
        here["environment"] == certificate.executor["environment"]
        and certificate.record["generator"]["digest"] == generator_digest()
    )
    examples, seed = certificate.examples, certificate.seed
    verdict = verify(executor, certificate.source, examples=examples, seed=seed, on_example=on_example)
    claims = tuple(_claims(certificate, verdict, same))
    return Recheck(certificate, _is_rendered(certificate.source, certificate.record), verdict, here, same, claims)


def recheck_document(result: Recheck) -> Document:
    """A recheck as JSON-ready data."""
    certificate = result.certificate
    return {
        "certificate": str(certificate.path),
        "name": certificate.source.name,
        "stands": result.stands,
        "changed": [asdict(file) for file in certificate.changed],
        "claims": [{**asdict(claim), "holds": claim.holds} for claim in result.claims],
        "verification": verdict_document(result.verdict),
        "executor": {"certified": certificate.executor, "here": result.executor, "same": result.same},
        "rendered_by_this_version": result.rendered,
        "not_shown": certificate.record["not_shown"],
    }


def _claims(certificate: Certificate, verdict: Verdict, same: bool) -> Iterator[Claim]:
    certified = certificate.record["verification"]
    now: Document = json.loads(json.dumps(verdict_document(verdict)))  # as JSON would have it
    yield Claim("passed", certified["passed"], now["passed"], True)
    yield Claim("deterministic", _same_bits(certified), _same_bits(now), True)
    for name in FIGURES:
        yield Claim(name, certified[name], now[name], same)


def _same_bits(verification: Mapping[str, Any]) -> bool | None:
    determinism = verification["determinism"]
    return None if determinism is None else bool(determinism.get("same_bits"))


def _is_rendered(source: KernelSource, record: Mapping[str, Any]) -> bool:
    try:
        return rendered_again(KernelFile(source, record)) == source
    except (InvalidInput, ZeroDivisionError):  # a config that this version refuses
        return False


def _read_object(path: Path) -> dict[str, Any]:
    """The certificate's JSON with everything in it that a recheck reads. Raises InvalidInput."""
    try:
        record = json.loads(path.read_bytes())
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise InvalidInput(f"{path} is no certificate: it is not JSON ({error})") from error
    require(isinstance(record, dict), f"{path} is no certificate: it holds no object")
    _require_fields(path, record, "", _CERTIFICATE)
    if record["verification"] is not None:
        _require_fields(path, record["verification"], "verification.", _VERIFICATION)
    return dict(record)


_NOTHING = type(None)
_CERTIFICATE: dict[str, Any] = {
    "name": str,
    "kernel_file": str,
    "kernel_bytes": int,
    "kernel_sha256": str,
    "files": dict,
    "generator": {"digest": str},
    "executor": {"name": str, "description": str, "environment": (str, _NOTHING)},
    "certified": {"examples": int, "seed": int},
    "verification": (dict, _NOTHING),
    "not_shown": list,
}
_VERIFICATION: dict[str, Any] = {
    "passed": bool,
    "executor": str,
    "examples": int,
    "worst_error_over_bound": (int, float, _NOTHING),
    "errors": (dict, _NOTHING),
    "domain": (dict, _NOTHING),
    "determinism": (dict, _NOTHING),
}


def _require_fields(path: Path, fields: Mapping[str, Any], where: str, wanted: Mapping[str, Any]) -> None:
    for name, kind in wanted.items():
        require(name in fields, f"{path} is no certificate that can be checked: {where}{name} is missing")
        value = fields[name]
        expected = dict if isinstance(kind, dict) else kind
        sound = isinstance(value, expected) and (expected is bool or not isinstance(value, bool))
        require(sound, f"{path} is no certificate that can be checked: {where}{name} is {str(value)[:40]!r}")
        if isinstance(kind, dict):
            _require_fields(path, value, f"{where}{name}.", kind)


def _certified_files(record: Mapping[str, Any], path: Path) -> tuple[str, int, dict[str, str]]:
    """(the kernel's file, bytes of it that are the kernel, SHA-256 by file name). Raises InvalidInput."""
    file, length, files = record["kernel_file"], record["kernel_bytes"], dict(record["files"])
    require(file in files, f"{path} contradicts itself: its kernel is in {file}, which is not among its files")
    for name, digest in files.items():
        require("\0" not in name, f"{path} names no file: {name!r}")
        require(Path(name).name == name, f"{path} names a file elsewhere: {name!r}")
        require(isinstance(digest, str), f"{path} has no SHA-256 of {name}, but {digest!r}")
    require(length > 0, f"{path}: kernel_bytes is {length}")
    require(record["certified"]["examples"] >= 0, f"{path}: certified.examples is {record['certified']['examples']}")
    return file, length, files


def _changed(folder: Path, files: Mapping[str, str], kernel: str, digest: str, text: bytes) -> Iterator[Changed]:
    if (found := sha256(text)) != digest:
        yield Changed(kernel, digest, found)
    for name, certified in files.items():
        try:
            now = sha256((folder / name).read_bytes())
        except FileNotFoundError:
            now = None
        except OSError as error:
            raise InvalidInput(f"cannot read {folder / name}: {error.strerror}") from error
        if now != certified:
            yield Changed(name, certified, now)
