"""Files are whole or absent, whatever happens: a full disk, a broken entry, other processes."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import tempfile
import threading
import warnings
from pathlib import Path

import pytest

from gemmgen.cli import main
from gemmgen.support.child import child_environment
from gemmgen.support.errors import GemmgenError
from gemmgen.support.files import Store, content_key, write_atomic

KEY = content_key("key")
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="owners and modes of files are POSIX's")


def files_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_write_creates_folders_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file.txt"
    write_atomic(path, "one")
    write_atomic(path, b"two")
    assert path.read_bytes() == b"two"
    assert files_below(tmp_path) == [path]


def test_readers_see_one_version_or_the_other(tmp_path: Path) -> None:
    path = tmp_path / "file"
    versions = [character * 200_000 for character in "abc"]
    write_atomic(path, versions[0])
    stop = threading.Event()
    seen: set[str] = set()

    def read() -> None:
        while not stop.is_set():
            seen.add(path.read_text())

    reader = threading.Thread(target=read)
    reader.start()
    for turn in range(100):
        write_atomic(path, versions[turn % 3])
    stop.set()
    reader.join()
    assert seen <= set(versions)


def test_where_no_folder_can_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(GemmgenError, match=r"cannot write .*file/entry: (Not a directory|File exists)"):
        write_atomic(tmp_path / "file" / "entry", "text")
    assert (tmp_path / "file").read_text() == "in the way"


def test_rename_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    write_atomic(tmp_path / "taken" / "file", "kept")
    with pytest.raises(GemmgenError, match=r"cannot write .*taken: "):
        write_atomic(tmp_path / "taken", "text")
    assert files_below(tmp_path) == [tmp_path / "taken" / "file"]


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from gemmgen.cli import main
from gemmgen.support.child import child_environment
from gemmgen.support.errors import GemmgenError
from gemmgen.support.files import write_atomic
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))  # the kernel stops each file there
try:
    write_atomic(Path(sys.argv[1]), b"new" * 100_000)
except GemmgenError as error:
    sys.exit(str(error))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="the limit on file sizes is POSIX's")
def test_a_write_that_stops_half_way_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomic(path, "old")
    done = subprocess.run([sys.executable, "-c", FULL_DISK, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == f"cannot write {path}: File too large\n"
    assert path.read_text() == "old"
    assert files_below(tmp_path) == [path]


def test_store(store: Store) -> None:
    assert store.get("cubin", KEY) is None
    store.put("cubin", KEY, b"payload")
    assert store.get("cubin", KEY) == b"payload"
    assert store.get("other", KEY) is None
    store.put("cubin", KEY, b"")
    assert store.get("cubin", KEY) == b""


@pytest.mark.parametrize("kept", [slice(0, -1), slice(0, 10), slice(0, 0), slice(1, None)], ids=str)
def test_a_damaged_entry_is_missing_and_mends(store: Store, kept: slice) -> None:
    store.put("cubin", KEY, b"payload")
    path = store.path("cubin", KEY)
    path.write_bytes(path.read_bytes()[kept])
    assert store.get("cubin", KEY) is None
    assert not path.exists()
    store.put("cubin", KEY, b"payload")
    assert store.get("cubin", KEY) == b"payload"


@POSIX
def test_files_of_a_store_are_the_users_alone(store: Store) -> None:
    with store.alone("cubin", KEY):
        store.put("cubin", KEY, b"payload")
    assert {stat.S_IMODE(path.stat().st_mode) for path in files_below(store.root)} == {0o600}


@POSIX
@pytest.mark.parametrize("mode", [0o602, 0o620], ids=oct)
def test_an_entry_that_others_may_write_is_missing_and_mends(store: Store, mode: int) -> None:
    store.put("cubin", KEY, b"payload")
    store.path("cubin", KEY).chmod(mode)
    assert store.get("cubin", KEY) is None
    store.put("cubin", KEY, b"payload")
    assert store.get("cubin", KEY) == b"payload"


@POSIX
def test_an_entry_of_another_user_is_missing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put("cubin", KEY, b"payload")
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert store.get("cubin", KEY) is None


@POSIX
def test_a_cache_folder_that_others_may_write_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert stat.S_IMODE(Store().root.stat().st_mode) == 0o700
    (tmp_path / "shared" / "gemmgen").mkdir(parents=True)
    (tmp_path / "shared" / "gemmgen").chmod(0o777)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "shared"))
    with pytest.warns(UserWarning, match=r"cannot use the cache .*shared.* \(it belongs to another user, or"):
        assert tmp_path not in Store().root.parents


def test_a_store_that_cannot_be_written_still_reads(tmp_path: Path) -> None:
    store = Store(tmp_path / "file")
    store.root.write_text("no folder")
    assert store.get("cubin", KEY) is None
    with pytest.warns(UserWarning, match="cannot write .*: results are not kept from here on"):
        store.put("cubin", KEY, b"payload")


def test_a_disk_that_fills_up_is_told_once_and_what_was_kept_stays(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("cubin", KEY, b"payload")

    def full(*arguments: object, **names: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "mkstemp", full)
    other = KEY[::-1]
    with pytest.warns(UserWarning, match="No space left on device: results are not kept from here on"):
        store.put("cubin", other, b"payload")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.put("cubin", other, b"payload")
    assert store.get("cubin", other) is None and store.get("cubin", KEY) == b"payload"


def test_a_cache_that_cannot_be_written_becomes_a_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "taken").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "taken"))
    with pytest.warns(UserWarning, match=r"cannot use the cache .*taken.* \(Not a directory\)"):
        store = Store()
    store.put("cubin", KEY, b"payload")
    assert Store().root == store.root, "one for the process, and one warning"
    assert Store().get("cubin", KEY) == b"payload"


@pytest.mark.filterwarnings("default")
def test_the_command_line_says_so_in_one_line_and_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "taken").write_text("no folder")
    (tmp_path / "sm_90").mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "taken"))
    assert main(["gallery", "--render", str(tmp_path)]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("gemmgen: warning: cannot use the cache ")


WRITER = """
import sys
from pathlib import Path
from gemmgen.support.files import Store
store, payload = Store(Path(sys.argv[1])), sys.argv[3].encode() * 50_000
for _ in range(200):
    store.put("cubin", sys.argv[2], payload)
    assert set((store.get("cubin", sys.argv[2]) or b"missing").decode()) in ({"a"}, {"b"})
"""


def test_two_processes_write_one_entry(store: Store) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(store.root), KEY, text]) for text in "ab"]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    assert store.get("cubin", KEY) in (b"a" * 50_000, b"b" * 50_000)
    assert files_below(store.root) == [store.path("cubin", KEY)]


# Its arguments: the store's folder, the key.
MAKER = """
import sys, time
from pathlib import Path
from gemmgen.support.files import Store

store = Store(Path(sys.argv[1]))
with store.alone("object", sys.argv[2]):
    if store.get("object", sys.argv[2]) is None:
        print("made", flush=True)
        time.sleep(0.2)
        store.put("object", sys.argv[2], b"whole")
assert store.get("object", sys.argv[2]) == b"whole"
"""


def test_of_processes_that_start_together_one_makes_what_is_missing(store: Store) -> None:
    words = [sys.executable, "-c", MAKER, str(store.root), KEY]
    makers = [subprocess.Popen(words, env=child_environment(), stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = [maker.communicate()[0] for maker in makers]
    assert [maker.returncode for maker in makers] == [0, 0, 0] and sorted(said) == ["", "", "made\n"]


def test_nobody_waits_where_there_is_no_lock(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with Store(tmp_path / "file").alone("object", KEY):
        pass


def test_keys_tell_parts_apart() -> None:
    keys = {content_key(*parts) for parts in [("ab", "c"), ("a", "bc"), ("abc",), ("abc", ""), ("é",), ()]}
    assert len(keys) == 6
    assert content_key("a", "b") == content_key("a", "b")


def test_a_broken_entry_in_a_cache_that_cannot_be_written_counts_as_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    store.path("kind", KEY).parent.mkdir(parents=True)
    store.path("kind", KEY).write_bytes(b"broken")

    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "unlink", refuse)  # root may write anywhere: no chmod shows it
    assert store.get("kind", KEY) is None


def test_shared_blocks_run_beside_each_other_and_beside_none_that_is_not(store: Store) -> None:
    """Two that share meet each other, and one that shares with nobody waits for both."""
    order: list[str] = []
    both, waiting = threading.Barrier(3), threading.Event()

    def sharing() -> None:
        with store.alone("gpu", KEY, shared=True):
            both.wait(10)  # which no two that take turns would pass
            assert waiting.wait(10)
            order.append("shared")

    def alone() -> None:
        waiting.set()
        with store.alone("gpu", KEY):
            order.append("alone")

    threads = [threading.Thread(target=one) for one in (sharing, sharing)]
    for thread in threads:
        thread.start()
    both.wait(10)
    threads.append(threading.Thread(target=alone))
    threads[-1].start()
    for thread in threads:
        thread.join(10)
    assert order == ["shared", "shared", "alone"]
