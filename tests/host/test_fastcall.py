"""The extension that makes known calls is compiled once, and missed by nobody."""

from __future__ import annotations

import sysconfig
from pathlib import Path
from typing import Any

import pytest

from gemmgen.arrays import fastcall
from gemmgen.run.emulator.compiler import HostCompiler
from gemmgen.run.emulator.failures import failed
from gemmgen.support.files import Store


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fastcall, "_made", {})


def test_it_is_compiled_once_for_all_processes(fastcalls, shared_store: Store, monkeypatch) -> None:
    def compiled(*given: Any) -> bytes:
        raise AssertionError("it is in the store")

    monkeypatch.setattr(HostCompiler, "extension", compiled)
    again = fastcall.native(shared_store)
    assert again is not None and again is fastcall.native(shared_store)


def test_no_compiler_no_extension(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[None] = []

    def find() -> HostCompiler:
        asked.append(None)
        raise failed("unavailable", "no C++ compiler is on this machine")

    monkeypatch.setattr(fastcall, "suits", lambda: True)
    monkeypatch.setattr(HostCompiler, "find", find)
    store = Store(tmp_path)
    assert fastcall.native(store) is None and fastcall.native(store) is None
    assert len(asked) == 1, "a call asks once"


def test_no_headers_of_python_no_extension(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    assert fastcall.native(Store(tmp_path)) is None


def test_what_the_compiler_refuses_is_no_extension(fastcalls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "fastcall.c"
    broken.write_text("int broken(")
    monkeypatch.setattr(fastcall, "SOURCE", broken)
    assert fastcall.native(Store(tmp_path)) is None


def test_what_is_no_extension_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fastcall, "suits", lambda: True)
    monkeypatch.setattr(fastcall, "_program", lambda *given: b"no library")
    assert fastcall.native(Store(tmp_path)) is None
