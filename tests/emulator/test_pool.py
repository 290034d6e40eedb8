"""A cluster of this machine's workers: what is lost, what differs, and what ends with what."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest

from gemmgen.api.remote import TuneJob
from gemmgen.cli import main
from gemmgen.families import NAIVE
from gemmgen.pool import connection, remote
from gemmgen.pool.cluster import HERE_ALONE, Cluster, require_alike, require_safe
from gemmgen.pool.connection import RemoteChild
from gemmgen.pool.worker import CPU, GPU
from gemmgen.problem.device import ARCHS
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render
from gemmgen.run.compile import COMPILER
from gemmgen.run.emulator.program import KIND
from gemmgen.support.child import ChildDied, child_environment
from gemmgen.support.errors import GemmgenError, InvalidInput
from gemmgen.verification import fuzz as fuzzing
from gemmgen.verification.fuzz import Budget, fuzz
from gemmgen.verification.parallel import cluster_lanes

LIMITS = ARCHS["sm_90"].limits
WORKERS = 2
SOURCE = render(Problem(8, 8, 8), NAIVE, NAIVE.default(Problem(8, 8, 8)))


@pytest.fixture(scope="module")
def address(shared_cache: Path) -> Iterator[str]:
    """The address of a scheduler in this process. Another process has its workers."""
    from distributed import Scheduler, SpecCluster

    scheduler: Any = {"cls": Scheduler, "options": {**HERE_ALONE, "dashboard": False}}
    with SpecCluster(scheduler=scheduler, workers={}, silence_logs="error") as made:
        command = [sys.executable, "-m", "gemmgen", "worker", made.scheduler_address, "--cpus", str(WORKERS)]
        environment = {**child_environment(), "XDG_CACHE_HOME": str(shared_cache)}
        with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as workers:
            made.wait_for_workers(WORKERS, timeout=60)
            yield made.scheduler_address
            workers.terminate()


FARM = """
import sys
from gemmgen.pool.worker import CPU, GPU, Place, serve
serve(sys.argv[1], [Place("host/GPU-1", GPU, {}), Place("host/cpu-0", CPU, {}), Place("host/cpu-1", CPU, {})])
"""


def test_a_worker_that_measures_has_others_compile(shared_cache: Path) -> None:
    """On this machine its card is an emulator."""
    from distributed import Scheduler, SpecCluster

    scheduler: Any = {"cls": Scheduler, "options": {**HERE_ALONE, "dashboard": False}}
    job = TuneJob(Problem(40, 24, 32), "emulator", "sm_90", "naive", 2, 0, "")
    with SpecCluster(scheduler=scheduler, workers={}, silence_logs="error") as made:
        command = [sys.executable, "-c", FARM, made.scheduler_address]
        own = shared_cache / "farm"  # without the results of other tests
        (own / "gemmgen").mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            (own / "gemmgen" / KIND).symlink_to(shared_cache / "gemmgen" / KIND)
        environment = {**child_environment(), "XDG_CACHE_HOME": str(own)}
        workers = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
        try:
            made.wait_for_workers(3, timeout=60)
            with Cluster(made.scheduler_address) as cluster:
                (lane,) = cluster.lanes(GPU, "gemmgen.api.remote:TuneLane")
                done = lane.request(job)
                assert done.result is not None and done.result.winner.verdict.passed
                children = cluster.client.run(lambda: sorted(factory for _, factory, *_ in remote._children))
                by_name = {str(cluster._names()[address]): found for address, found in children.items()}
                assert by_name["host/GPU-1"] == ["gemmgen.api.remote:TuneLane"]
                assert {*by_name["host/cpu-0"], *by_name["host/cpu-1"]} == {COMPILER}
                processes = cluster.client.run(lambda: [one._process.pid for one in remote._children.values()])
            assert all(ended(pid) for found in processes.values() for pid in found)
        finally:
            workers.terminate()
            workers.wait()


def ended(pid: int, seconds: float = 10) -> bool:
    """Whether the process is gone, or a zombie, which has no command line, within so long."""
    path = Path(f"/proc/{pid}/cmdline")
    for _ in range(int(10 * seconds)):
        with suppress(OSError):
            if path.read_bytes():
                time.sleep(0.1)
                continue
        return True
    return False


class Ends:
    """What ends the process that unpickles it."""

    def __reduce__(self) -> tuple[Any, tuple[int]]:
        return os._exit, (3,)


class Sleeps:
    """What takes a minute to unpickle."""

    def __reduce__(self) -> tuple[Any, tuple[float]]:
        return time.sleep, (60.0,)


def test_a_worker_that_dies_in_the_middle_of_its_work_costs_nothing(address: str, tmp_path: Path) -> None:
    with Cluster(address) as cluster:
        assert cluster.count(CPU) == WORKERS and cluster.card is None
        victims = [*cluster.client.run(os.getpid).values()][:1]

        def killing(*_: object) -> None:
            while victims:
                os.kill(victims.pop(), signal.SIGKILL)

        lanes = cluster_lanes(cluster, CPU)
        report = fuzz(lanes, "emulator", LIMITS, [NAIVE], tmp_path, Budget(situations=160), on_step=killing)
        assert report.passed and report.tally.situations == 160 and report.tally.kernels == 4
        assert len(cluster.lost()) == 1 and cluster.lost()[0].partition("/")[2].startswith("cpu-")


def test_a_request_that_ends_its_child_costs_no_worker(address: str) -> None:
    with Cluster(address) as cluster:
        lane, *_ = cluster_lanes(cluster, CPU)
        pids = {*cluster.client.run(os.getpid).values()}
        with pytest.raises(ChildDied, match="exit code 3"):
            lane.request(Ends())
        assert {*cluster.client.run(os.getpid).values()} == pids and cluster.lost() == []


def test_a_request_that_takes_too_long_is_ended(address: str) -> None:
    with Cluster(address) as cluster:
        lane, *_ = cluster_lanes(cluster, CPU)
        with pytest.raises(ChildDied, match=r"no answer in 0\.5 s") as died:
            lane.request(Sleeps(), timeout=0.5)
        assert died.value.timed_out


def test_a_worker_of_another_version_is_refused_by_its_name(address: str) -> None:
    with Cluster(address) as cluster:
        lane, *_ = cluster_lanes(cluster, CPU)
        described, expected = {name: {**one} for name, one in cluster.known.items()}, {**cluster.expected}
        cluster.expected["gemmgen"] = "0.1, code 01234567"
        with pytest.raises(GemmgenError, match=r"a worker on .* has gemmgen .*, which has to be 0\.1, code 01234567"):
            lane.request("what it would not read")
        with pytest.raises(InvalidInput, match=r"worker .*/cpu-\d has gemmgen .*, which has to be 0\.1, code 01234567"):
            require_alike(cluster.expected, described)
    first, second, *_ = described.values()
    card = {"name": "NVIDIA H200", "driver": "580.1"}
    first["card"], second["card"] = card, {**card, "driver": "570.9"}
    with pytest.raises(InvalidInput, match=r"worker .* has driver 570\.9, which has to be 580\.1"):
        require_alike(expected, described)
    second["card"], second["compiler"] = card, "NVRTC 12.4"
    with pytest.raises(InvalidInput, match=r"has compiler NVRTC 12\.4, which has to be NVRTC"):
        require_alike(expected, described)


class Lost:
    """A cluster whose tasks end in one way; without `workers` nobody does them."""

    where = "tcp://127.0.0.1:8786"

    def __init__(self, error: Exception, workers: int = 1) -> None:
        self.error, self.workers = error, workers

    def submit(self, *_: object) -> Lost:
        return self

    def result(self, timeout: float) -> object:
        raise self.error

    def count(self, resource: str) -> int:
        return self.workers


def test_what_dask_gives_up_or_loses_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    import distributed

    def asked(error: Exception, workers: int = 1) -> None:
        RemoteChild(cast(Cluster, Lost(error, workers)), CPU, "a:factory").request("anything")

    with pytest.raises(GemmgenError, match=r"the connection to the scheduler at tcp:.*:8786 is lost: gone"):
        asked(distributed.CancelledError("gone"))
    with pytest.raises(GemmgenError, match="is lost: closed"):
        asked(distributed.comm.CommClosedError("closed"))
    killed = distributed.KilledWorker("a task", SimpleNamespace(address="tcp://a:1"), 3)
    with pytest.raises(GemmgenError, match=r"given up, as workers are lost: .*a task"):
        asked(killed)
    monkeypatch.setattr(connection, "PATIENCE_SECONDS", -1.0)
    with pytest.raises(GemmgenError, match="no worker with a CPU is left"):
        asked(distributed.TimeoutError(), workers=0)


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("tcp://127.0.0.1:99999", "is no address"),
        ("tcp://10.0.0.5:8786", "runs the code of anybody who reaches it. Use tls://"),
        ("tcp://farm:8786", "runs the code of anybody who reaches it. Use tls://"),
        ("10.0.0.5", "is no address: tcp://HOST:PORT"),
        ("nowhere.py", "no file nowhere.py"),
    ],
)
def test_addresses_that_are_not_safe_or_none_are_refused(address: str, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        Cluster(address)


def test_loopback_and_tls_are_safe() -> None:
    for safe in ("tcp://127.0.0.1:8786", "tcp://localhost:1", "tcp://[::1]:8786", "tls://farm.example:8786"):
        require_safe(safe)


def test_workers_of_this_machine_are_reached_by_this_machine_alone(address: str) -> None:
    with Cluster(address) as cluster:
        workers = cluster.client.scheduler_info(n_workers=-1)["workers"]
        places = {place for at, one in workers.items() for place in (at, one["nanny"])}
    ports = {int(place.rpartition(":")[2]) for place in places}
    lines = [
        line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    ]
    listening = {(at, int(port, 16)) for line in lines if line[3:4] == ["0A"] for at, port in [line[1].split(":")]}
    assert len(ports) == 2 * WORKERS and {at for at, port in listening if port in ports} == {"0100007F"}


def test_tls_without_certificates_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"no scheduler answers at tls://127\.0\.0\.1:8786"):
        Cluster("tls://127.0.0.1:8786")


def test_children_of_a_client_that_died_end_with_the_next_one(address: str) -> None:
    dead, one_child = Cluster(address), lambda: [child._process.pid for child in remote._children.values()]
    dead.lanes(CPU, COMPILER)[0].request((SOURCE.text, "sm_90"))
    (orphan,) = [pid for pids in dead.client.run(one_child).values() for pid in pids]
    dead._stack.close()  # it says nothing to its workers
    with Cluster(address) as cluster:
        for _ in range(2 * WORKERS):  # whichever worker had it
            cluster.lanes(CPU, COMPILER)[0].request((SOURCE.text, "sm_90"))
            if ended(orphan, seconds=0.5):
                break
        assert ended(orphan)


def test_what_fails_on_a_worker_comes_back_as_its_failure(address: str) -> None:
    with Cluster(address) as cluster:
        with pytest.raises(ChildDied, match=r"exit code 1: ModuleNotFoundError: No module named 'gemmgen\.nowhere'"):
            cluster.lanes(CPU, "gemmgen.nowhere:Lane")[0].request("anything")
        cluster.client.run(lambda: vars(remote).update(kept=remote.identity, identity=None))
        try:
            with pytest.raises(GemmgenError, match=r"(?s)^on .*: Traceback.*'NoneType' object is not callable"):
                cluster.lanes(CPU, COMPILER)[0].request((SOURCE.text, "sm_90"))
        finally:
            cluster.client.run(lambda: vars(remote).update(identity=vars(remote)["kept"]))


def test_a_file_may_give_the_client(address: str, tmp_path: Path) -> None:
    file = tmp_path / "farm.py"
    file.write_text(f"import distributed\n\ndef client():\n    return distributed.Client({address!r})\n")
    with Cluster(str(file)) as cluster:
        assert cluster.count(CPU) == WORKERS
    file.write_text("clients = 3\n")
    with pytest.raises(InvalidInput, match=r"has no function client\(\)"):
        Cluster(str(file))


def test_an_interrupt_ends_all_that_was_started(shared_cache: Path, tmp_path: Path) -> None:
    mark = uuid4().hex
    environment = {**child_environment(), "XDG_CACHE_HOME": str(shared_cache), "GEMMGEN_MARK": mark}
    command = [sys.executable, "-m", "gemmgen", "fuzz", "--cluster", "local", "--family", "naive", "--minutes", "5"]
    command[:0] = ["env", "--default-signal=INT"]  # what a shell starts in the background ignores it
    with subprocess.Popen(command, env=environment, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("local: ")
        assert len(marked(mark)) > 1
        process.send_signal(signal.SIGINT)
        code, said = process.wait(60), process.stderr.read()
        assert code == 130 and "interrupted" in said, said
    for _ in range(300):  # they get to know it
        if not marked(mark):
            break
        time.sleep(0.1)
    assert not marked(mark)


def marked(mark: str) -> list[str]:
    """Processes that have `mark` in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it has ended
            found += [path.parent.name] if mark.encode() in path.read_bytes() else []
    return found


def test_searches_of_workers_are_those_of_this_machine(
    address: str,
    tmp_path: Path,
    shared_cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared_cache))
    monkeypatch.chdir(tmp_path)
    words = ["tune", "32x32x32", "64x32x32", "32x64x32", "--family", "naive", "--device", "emulator"]
    words += ["--json"]
    results = []
    for out, where in (("there", ["--cluster", address]), ("here", [])):
        assert main([*words, *where, "--out", out]) == 0
        results.append(json.loads(capsys.readouterr().out)["results"])
    names = [[one["winner"]["name"] for one in some] for some in results]
    assert names[0] == names[1] and [one["problem"]["m"] for one in results[0]] == [32, 64, 32]
    for name in names[0]:
        assert Path(f"there/{name}.cu").read_text() == Path(f"here/{name}.cu").read_text()
        assert "--cluster" in json.loads(Path(f"there/{name}.json").read_text())["command"]
    assert main([*words, "--cluster", address, "--arch", "A100", "--family", "wgmma", "--out", "none"]) == 1
    assert "32x32x32" in json.loads(capsys.readouterr().out)["error"]["message"]
    assert main([*words[:2], "--cluster", address, "--as", "mine"]) == 2


def test_rows_of_the_suite_come_from_workers_and_stay_on_file(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shapes.txt").write_text("64x32x32 --layout rc\n16x32x32 --dtype bf16\n")
    words = ["suite", "--shapes", "shapes.txt", "--arch", "A100", "--budget", "1", "--out", "mine"]
    assert main([*words, "--cluster", address, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["architectures"][0]["rows"]
    assert {(row["state"], row["problem"]["m"]) for row in rows} == {("done", 64), ("done", 16)}
    for row in rows:
        assert {path.suffix for path in Path("mine/sm_80").glob(f"{row['kernel']}.*")} == {".cu", ".json"}
    assert "predicted" in Path("mine/sm_80/README.md").read_text()
    assert main([*words, "--cluster", address, "--json"]) == 0
    again = json.loads(capsys.readouterr().out)["architectures"][0]["rows"]
    assert {(row["state"], row["kernel"]) for row in again} == {("on file", row["kernel"]) for row in rows}
    assert main([*words, "--cluster", address, "--step", "emulate"]) == 2
    assert "--cluster is for measure, and with --arch for predict" in capsys.readouterr().err
    assert main(["suite", "--shapes", "shapes.txt", "--cluster", address, "--out", "mine"]) == 2
    assert "has a GPU" in capsys.readouterr().err


@pytest.mark.soak
def test_a_library_of_workers_is_that_of_this_machine(
    address: str,
    tmp_path: Path,
    shared_cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared_cache))
    monkeypatch.chdir(tmp_path)
    products = "".join(f'[[product]]\nname = "{name}"\nM = 32\nN = {n}\nK = 32\n' for name, n in (("a", 32), ("b", 64)))
    Path("lib.toml").write_text(f'name = "mylib"\narchitectures = ["sm_80"]\n{products}')
    words = ["library", "lib.toml", "--examples", "1", "--device", "emulator", "--json"]
    made = []
    for to, where in (("there", ["--cluster", address]), ("here", [])):
        assert main([*words, *where, "--to", to]) == 0
        made.append(json.loads(capsys.readouterr().out)["choices"])
    assert made[0] == made[1] and [one["product"] for one in made[0]] == ["a", "b"]
    texts = [{path.name: path.read_text() for path in Path(to).glob("*.h")} for to in ("there", "here")]
    assert texts[0] == texts[1] and len(texts[0]) > 2
    Path("lib.toml").write_text(f'{Path("lib.toml").read_text()}kernels = ["mine.cu"]\n')
    Path("mine.cu").write_text("")
    assert main([*words, "--cluster", address, "--to", "more"]) == 2
    assert "a cluster makes what it searches" in json.loads(capsys.readouterr().out)["error"]["message"]


def test_a_planted_bug_is_found_and_shrunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], shared_cache: Path
) -> None:
    def wrong(*point: Any) -> Any:
        source = render(*point)
        return replace(source, text=source.text.replace("k < s.K;", "k < s.K - (s.K > 20);"))

    monkeypatch.setattr(fuzzing, "render", wrong)
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared_cache))
    monkeypatch.chdir(tmp_path)
    words = ["fuzz", "--cluster", "local", "--examples", "4000", "--family", "naive", "--seed", "1", "--json"]
    assert main(words) == 1
    report = json.loads(capsys.readouterr().out)
    case = report["found"]["situation"]["case"]
    assert not report["passed"] and (case["M"], case["N"], case["K"]) == (1, 1, 21), "the smallest that shows it"
