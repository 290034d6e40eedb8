"""README.md and docs/: what they show works; tests/emulator/test_front_door.py runs README's commands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import mypy.api
import pytest

from gemmgen.cli import COMMANDS, cli
from gemmgen.exports.library.spec import read_spec
from gemmgen.families import FAMILIES
from gemmgen.lab.runtime_m import RUNTIME_M
from gemmgen.lab.scores import Summary, scores_in, summaries
from gemmgen.lab.shapes import GROUPS
from gemmgen.problem.epilogue import parse_epilogue
from gemmgen.problem.forms import FORM_NAMES
from gemmgen.problem.functions import FUNCTIONS
from gemmgen.problem.inputs import COMPANIONS, SWITCHES
from gemmgen.problem.operands import ACCUMULATORS, DEPTH, OPERANDS, SCALARS, SUMS, C
from gemmgen.problem.parser import FORM_CALLS
from gemmgen.verification.situation import ALL_DATA_KINDS

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{re.escape(language)}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def links(page: Path) -> list[str]:
    prose = re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return [target for target in re.findall(r"\]\(([^)\s]+)\)", prose) if not target.startswith("http")]


def anchors(page: Path) -> set[str]:
    """Of its headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_python_examples_pass_mypy_strict(tmp_path: Path) -> None:
    paths = []
    for name, page in (("readme", README), ("docs", ROOT / "docs" / "python.md")):
        (example,) = blocks(page, "python")
        paths.append(tmp_path / f"{name}.py")
        paths[-1].write_text(example)
    options = ["--strict", "--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
    said, _, status = mypy.api.run([*options, *map(str, paths)])
    assert status == 0, said


def test_the_front_door_is_short() -> None:
    assert len(README.read_text().splitlines()) < 250


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name}: {link} is no file"
        assert not anchor or anchor in anchors(target), f"{page.name}: {link} is no heading of {target.name}"


def test_the_table_of_contents_has_every_page() -> None:
    contents = ROOT / "docs" / "README.md"
    linked = {(contents.parent / link).resolve() for link in links(contents)}
    assert {page for page in PAGES if page not in (README, contents)} <= linked
    assert contents in {(ROOT / link).resolve() for link in links(README)}


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_commands_and_targets_exist(page: Path) -> None:
    text = page.read_text()
    commands = set(re.findall(r"(?:^\$ |^    |^|`)gemmgen ([a-z]+)\b", "\n".join(code(text)), re.MULTILINE))
    assert commands <= {*COMMANDS}
    targets = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:^    |`)make ([a-z-]+)", text, re.MULTILINE)) <= targets


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_commands_have_the_options_that_are_shown(page: Path) -> None:
    """In lines that are commands, whatever stands for their arguments."""
    lines = re.findall(r"^(?:\$ |    )?gemmgen ([a-z]+) (.*)$", page.read_text(), re.MULTILINE)
    for name, rest in lines:
        command = cli.get_command(click.Context(cli), name)
        if command is None:
            continue  # prose; which commands exist is the test's above
        command.make_parser(click.Context(command)).parse_args(shlex.split(rest, comments=True))


def code(text: str) -> list[str]:
    """Blocks in fences, lines that are indented, and what stands between backticks."""
    fenced = re.findall(r"^```[a-z+]*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [*fenced, *re.findall(r"^    .*$", text, re.MULTILINE), *re.findall(r"`[^`\n]+`", text)]


def test_the_kernel_stands_on_file_as_it_is_shown(request: pytest.FixtureRequest) -> None:
    """`pytest --update-golden` takes the lines of the kernel that is on file now, and its name."""
    text = README.read_text()
    (link,) = re.findall(r"generated/sm_90/gemm_bf16_rc_4096x4096x4096_sm90a?_\w+\.cu", text)
    (shown,) = blocks(README, "cuda")
    if request.config.getoption("--update-golden"):
        (path,) = (ROOT / "generated" / "sm_90").glob("gemm_bf16_rc_4096x4096x4096_sm90*.cu")
        README.write_text(text.replace(shown, main_loop(path)).replace(link, str(path.relative_to(ROOT))))
        return
    assert shown == main_loop(ROOT / link), "pytest --update-golden tests/host/test_readme.py"


def test_the_results_are_those_on_file(request: pytest.FixtureRequest) -> None:
    """Each table is that of the card whose plot stands above it; `--update-golden` takes what is on file now."""
    page = ROOT / "docs" / "results.md"
    before, *parts = re.split(r"(?<=generated/)(?=\w+/ratios\.svg)", page.read_text())
    assert parts[0].startswith("sm_90/"), "the H200's come first"
    made = [with_results(part, part.partition("/")[0]) for part in parts]
    if request.config.getoption("--update-golden"):
        page.write_text("".join((before, *made)))
        return
    assert parts == made, "pytest --update-golden tests/host/test_readme.py"


def with_results(part: str, folder: str) -> str:
    """A part of the page with the one table in it made of what is on file in a folder of generated/."""
    (shown,) = re.findall(r"^(\|---\|---:\|.*\n(?:\|.*\n)*)", part, re.MULTILINE)
    rows = map(row_of, summaries(scores_in(ROOT / "generated" / folder)))
    return part.replace(shown, "|---|---:|---:|---|---:|\n" + "".join(rows))


def row_of(group: Summary) -> str:
    """Of the table of results."""
    measured = f"{group.rows} of {group.rows + len(group.missing)}" if group.missing else str(group.rows)
    if group.geomean is None:
        return f"| {group.group} | {measured} | | | |\n"
    least = f"{group.minimum:.3f}x: {group.lowest}"
    return f"| {group.group} | {measured} | {group.geomean:.3f}x | {least} | {group.below} |\n"


def main_loop(path: Path) -> str:
    """What a consumer does, up to the end of its loop over k."""
    text = path.read_text()
    start = text.index("    const int consumer = ")
    end = re.compile(r"^        }\n", re.MULTILINE).search(text, start)
    assert end is not None
    return text[start : end.end()]


def test_the_spec_of_the_library_is_one(tmp_path: Path) -> None:
    (text,) = blocks(README, "toml")
    (tmp_path / "linear.toml").write_text(text)
    (product,) = read_spec(tmp_path / "linear.toml", "sm_90").products
    assert product.name == "linear"


def test_every_family_is_described() -> None:
    listed = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "kernels.md").read_text(), re.MULTILINE)
    assert {*listed} == {*FAMILIES}


def test_every_detail_of_a_family_is_described_with_it() -> None:
    page = (ROOT / "docs" / "kernels.md").read_text()
    told = page.partition("`details` of a family")[2].partition("Where a kernel cannot")[0]
    everywhere, *lists = told.split("\n- ")
    for name, family in FAMILIES.items():
        own = " ".join(part for part in lists if f"`{name}`" in part.partition(":")[0])
        assert {*family.details} == {one for one in family.details if f"`{one}`" in everywhere + own}, name
        assert bool(family.details) == (name not in ("naive", "threadtile", "wmma"))


def test_all_that_an_epilogue_may_name_is_described() -> None:
    """On its page, and in --help, which owners of a wheel have."""
    command = cli.get_command(click.Context(cli), "tune")
    assert command is not None
    (option,) = (one for one in command.params if one.name == "epilogue")
    assert isinstance(option, click.Option) and option.help is not None
    names = {*ACCUMULATORS, C, DEPTH, *SCALARS, *SUMS, *OPERANDS, *FUNCTIONS, *FORM_NAMES}
    page = " ".join(re.findall(r"`([^`\n]+)`", (ROOT / "docs" / "epilogues.md").read_text()))
    for text in (option.help, page):
        assert names <= set(re.findall(r"\w+", text))
    assert all(form in text for form in FORM_CALLS for text in (option.help, page))


@pytest.mark.parametrize(
    "line", re.findall(r"^    gemmgen .*(--epilogue .*)", (ROOT / "docs" / "epilogues.md").read_text(), re.M)
)
def test_epilogues_that_the_docs_show_are_some(line: str) -> None:
    assert parse_epilogue(shlex.split(line)[1]).names


def test_all_forms_of_a_and_b_are_in_one_table() -> None:
    page = (ROOT / "docs" / "commands.md").read_text()
    (table,) = re.findall(r"^\| `--inputs` \|.*\n(?:\|.*\n)*", page, re.MULTILINE)
    told = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`\n]+)`", table))))
    assert {*SWITCHES, *COMPANIONS, "plain", "scales", "zeros", "groups", "im2col", "wgrad"} <= told


def test_all_groups_of_the_suite_are_in_one_table() -> None:
    (table,) = re.findall(r"^\| `--group` \|.*\n((?:\|.*\n)*)", (ROOT / "docs" / "suite.md").read_text(), re.MULTILINE)
    first = " ".join(line.split(" | ")[0] for line in table.splitlines())
    assert {*re.findall(r"`([^`]+)`", first)} == {*GROUPS, RUNTIME_M}


def test_the_table_of_commands_writes_arguments_as_help_does() -> None:
    context = click.Context(cli)
    rows = (ROOT / "docs" / "commands.md").read_text().replace("\\|", "|")
    for name in ("bench", "suite", "diff"):
        command = cli.get_command(context, name)
        assert command is not None
        usage = " ".join(
            [name, *(one.make_metavar(context) for one in command.params if isinstance(one, click.Argument))]
        )
        assert f"| `gemmgen {usage}` |" in rows


@pytest.mark.parametrize("where", ["docs", "help"])
def test_all_kinds_of_data_that_fuzz_draws_are_named(where: str) -> None:
    command = cli.get_command(click.Context(cli), "fuzz")
    assert command is not None and command.help is not None
    page = (ROOT / "docs" / "verification.md").read_text()
    told = command.help if where == "help" else page.partition("`gemmgen fuzz` does this")[2].partition("```")[0]
    names = {"exact": "small integers", "onehot": "one-hot", "special": "Inf and NaN"}
    for kind in ALL_DATA_KINDS:
        assert names.get(kind, kind) in " ".join(told.split()), kind


def test_ways_to_install_name_extras_that_exist() -> None:
    extras = set(re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text().partition("optional-dep")[2], re.M))
    version = re.findall(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[0]
    for page in PAGES:
        for path, named in re.findall(r"install (?:--editable )?'([^'\[]*)\[([\w,]+)\]'", page.read_text()):
            assert {*named.split(",")} <= extras, f"{page.name}: {named}"
            assert path in ("gemmgen", ".", f"dist/gemmgen-{version}-py3-none-any.whl")
