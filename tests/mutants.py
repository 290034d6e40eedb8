"""Mutation testing of gemmgen's own code: small mistakes in it that no test beside it notices.

`python tests/mutants.py --mutants 100 --seed 1` makes one mistake at a time (cosmic-ray's operators) in a copy of the
tree, and runs the tests that import the module there. Survivors are listed with what was changed: it makes no
difference, or a test is missing, or the code has no purpose.
"""

from __future__ import annotations

import argparse
import compileall
import difflib
import json
import os
import queue
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names
from parso.tree import NodeOrLeaf

from gemmgen.run.emulator.program import KIND
from gemmgen.support.files import Store

ROOT = Path(__file__).parents[1]
ROOMS = ("verification", "run", "exports")
LEFT_OUT = "gpu"  # a folder whose tests take a GPU
TESTS = ("host", "compile", "emulator")
TEST_SECONDS = 60  # a test that takes as long hangs
MUTANT_SECONDS = 100  # a mutant that lives so long has survived
IMPORT = re.compile(r"^\s*from (gemmgen[\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)
LATE = 124
PASSED = {0: "survived", LATE: f"survived the tests of {MUTANT_SECONDS} s"}
OPERATORS = {name: get_operator(name)() for name in operator_names() if not get_operator(name).arguments()}


@dataclass(frozen=True)
class Mutant:
    """A mutant of `module`: cosmic-ray's `operator` applied at the `occurrence`-th place where it can be."""

    module: Path
    line: int
    operator: str
    occurrence: int

    def code(self) -> str:
        made = mutate_code((ROOT / self.module).read_text(), OPERATORS[self.operator], self.occurrence)
        assert made is not None
        return made

    def __str__(self) -> str:
        old, new = (ROOT / self.module).read_text().splitlines(), self.code().splitlines()
        changed = [
            line for line in difflib.unified_diff(old, new, n=0, lineterm="") if re.match(r"[-+](?![-+]{2})", line)
        ]
        return "\n  ".join([f"{self.module}:{self.line}", *changed])


def mutants(module: Path) -> list[list[Mutant]]:
    """All mutants of `module`, by the place that they change."""
    nodes = list(ast_nodes(get_ast((ROOT / module).read_text())))
    places: dict[tuple[int, int], list[Mutant]] = {}
    for name, operator in OPERATORS.items():
        found = (node for node in nodes for _ in operator.mutation_positions(node))
        for occurrence, node in enumerate(found):
            if not makes_no_difference(node):
                places.setdefault(node.start_pos, []).append(Mutant(module, node.start_pos[0], name, occurrence))
    return list(places.values())


def makes_no_difference(node: NodeOrLeaf) -> bool:
    """In an annotation, an assertion (strict=True, frozen=True), or what saves time (@cache)."""
    while node.parent is not None:
        parent = node.parent
        if parent.type == "tfpdef" or (parent.type == "annassign" and node is parent.children[1]):
            return True
        if parent.type == "funcdef" and node is parent.annotation:
            return True
        if re.fullmatch(r"\s*(strict=\w+|frozen=\w+|@(functools\.)?cache\s*)", node.get_code()):
            return True
        node = parent
    return False


def sample(count: int, seed: int, only: list[str]) -> list[Mutant]:
    """`count` mutants of random places, each module as often as any other. Of all modules, or of those in `only`."""
    draw = random.Random(seed)
    assert all((ROOT / "gemmgen" / room).is_dir() for room in ROOMS)
    modules = [path.relative_to(ROOT) for room in ROOMS for path in sorted((ROOT / "gemmgen" / room).rglob("*.py"))]
    modules = [path for path in modules if LEFT_OUT not in path.parts]
    if only:
        modules = [Path(name) for name in only]
    draw.shuffle(modules)
    places = {module: mutants(module) for module in modules[:count]}
    drawn = [draw.choice(draw.choice(places[module])) for module in cycle(list(places), count) if places[module]]
    return list(dict.fromkeys(drawn))


def cycle(modules: list[Path], count: int) -> list[Path]:
    return [modules[i % len(modules)] for i in range(count)]


@cache
def imported(file: Path) -> set[str]:
    """Names that `file` imports: modules, and what may be one."""
    names: set[str] = set()
    for module, members in IMPORT.findall(file.read_text()):
        names |= {module, *(f"{module}.{name}" for name in re.findall(r"\w+", members))}
    return names


def tests_of(module: Path) -> list[str]:
    """Test files that are called as `module` or import it, else those that import what does; the likeliest and fastest
    first."""
    tests = [file for file in files("tests") if file.parent.name in TESTS]
    names, importing = {dotted(module)}, list[Path]()
    while not importing and names:
        importing = [file for file in tests if names & imported(file)]
        names = {dotted(file.relative_to(ROOT)) for file in files("gemmgen") if names & imported(file)}
    named = {file for file in tests if f"_{module.stem}_" in f"{file.stem}_"}
    order = sorted(
        named.union(importing),
        key=lambda file: (file not in named, TESTS.index(file.parent.name), file.stat().st_size),
    )
    return [str(file.relative_to(ROOT)) for file in order]


@cache
def files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def dotted(module: Path) -> str:
    return ".".join(module.with_suffix("").parts).removesuffix(".__init__")


class Copy:
    """A copy of the tree with a cache of its own, in which mutants are made and tested one after another."""

    def __init__(self, folder: Path) -> None:
        self._tree, self._cache, self._left_out = folder / "tree", folder / "pytest", list[str]()
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
        for name in filter(None, listed.stdout.split("\0")):
            if (ROOT / name).is_file():
                (self._tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self._tree / name)
        # Python tells a changed file by its size and its second: code is compiled here, and never again.
        compileall.compile_dir(self._tree, quiet=1)
        if (Store().root / KIND).exists():
            shutil.copytree(Store().root / KIND, folder / "cache" / "gemmgen" / KIND)
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(self._tree),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "XDG_CACHE_HOME": str(folder / "cache"),
        }

    def outcome(self, mutant: Mutant) -> str:
        """ "survived", or what killed it. Tests that fail without it, too, are left out from then on."""
        file = self._tree / mutant.module
        while tests := [test for test in tests_of(mutant.module) if test not in self._left_out]:
            file.write_text(mutant.code())
            code, failed = self._run(*tests, *(f"--deselect={name}" for name in self._left_out))
            shutil.copy2(ROOT / mutant.module, file)
            if code in PASSED:
                return PASSED[code]
            if not failed:
                return "killed, at an import or by its time"
            if self._run(failed)[0] == 0:
                return f"killed by {failed}"
            print(f"left out, as it fails here without any mutant: {failed}", flush=True)
            self._left_out.append(failed)
        return "survived: no test imports the module"

    def _run(self, *arguments: str) -> tuple[int, str]:
        """pytest's exit code, or LATE, and the test that failed."""
        command = [sys.executable, "-m", "pytest", "-x", "-o", f"cache_dir={self._cache}"]
        command += ["-o", f"faulthandler_timeout={TEST_SECONDS}", "-o", "faulthandler_exit_on_timeout=true"]
        shutil.rmtree(self._cache, ignore_errors=True)
        quiet = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        with subprocess.Popen(
            [*command, *arguments], cwd=self._tree, env=self._environment, start_new_session=True, **quiet
        ) as process:
            try:
                process.wait(MUTANT_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return LATE, ""
        failed = self._cache / "v" / "cache" / "lastfailed"
        return process.returncode, next(iter(json.loads(failed.read_text())), "") if failed.exists() else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=100, help="how many, at most (default: 100)")
    parser.add_argument("--minutes", type=float, default=20, help="no mutant begins later (default: 20)")
    parser.add_argument(
        "--seed", type=int, default=random.randrange(2**16), help="which ones (default: others each time)"
    )
    parser.add_argument("module", nargs="*", help="of these files alone (default: verification, run and exports)")
    asked = parser.parse_args()
    drawn = sample(asked.mutants, asked.seed, asked.module)
    print(f"{len(drawn)} mutants of gemmgen's own code, --seed {asked.seed}", flush=True)
    copies = queue.SimpleQueue[Copy]()
    start, outcomes = time.monotonic(), dict[Mutant, str]()  # noqa: TID251  # no test

    def judge(mutant: Mutant) -> None:
        if time.monotonic() - start > 60 * asked.minutes:  # noqa: TID251
            return
        copy = copies.get()
        try:
            outcomes[mutant] = copy.outcome(mutant)
        finally:
            copies.put(copy)
        print(f"[{len(outcomes)}/{len(drawn)}] {mutant.module}:{mutant.line}: {outcomes[mutant]}", flush=True)

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        for number in range(os.cpu_count() or 1):
            copies.put(Copy(Path(folder, str(number))))
        list(pool.map(judge, drawn))
    lived = {mutant: said for mutant, said in outcomes.items() if not said.startswith("killed")}
    for mutant, said in lived.items():
        print(f"\n{mutant}\n  {said}")
    print(f"\n{len(outcomes)} mutants tested, {len(outcomes) - len(lived)} killed, {len(lived)} to read")


if __name__ == "__main__":
    main()
