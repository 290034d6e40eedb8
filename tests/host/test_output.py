"""What is printed is the text as it is, whatever a user's names hold, and never an order to the terminal."""

from __future__ import annotations

import io

import pytest
from rich.text import Text

from gemmgen.cli import progress
from gemmgen.cli.output import report_error, show_warning
from gemmgen.cli.reports.words import bold, table
from gemmgen.support.console import PlainConsole
from gemmgen.support.errors import InvalidInput

ODD = ["x[/b]y", "x[bold]y", "pip install 'gemmgen[plot]'", "a:bomb:b", "[red]", "[@click=x]y"]


@pytest.fixture
def console() -> PlainConsole:
    made = PlainConsole(stderr=False, width=100)
    made.file = io.StringIO()
    return made


def printed(console: PlainConsole) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("text", ODD)
def test_no_string_is_markup(console: PlainConsole, text: str) -> None:
    console.print(text)
    console.print(bold(text), text, sep=" / ")
    made = table(text, title=text)
    made.caption = text
    made.add_row(text)
    console.print(made)
    lines = [line.strip() for line in printed(console).splitlines()]
    assert lines[:3] == [text, f"{text} / {text}", text] and lines.count(text) == 5


def test_control_characters_are_written_out(console: PlainConsole) -> None:
    console.print("a\0b", Text("c\x1b[31md"), "e\udc80f")
    assert printed(console) == "a\\x00b c\\x1b[31md e\\udc80f\n"


def test_errors_and_warnings_hold_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    assert report_error(InvalidInput("no kernel\0 is here\x1b[2J"), as_json=False) == 2
    show_warning("cannot write a\0b", UserWarning, "file.py", 1)
    assert capsys.readouterr().err == (
        "gemmgen: wrong usage: no kernel\\x00 is here\\x1b[2J\ngemmgen: warning: cannot write a\\x00b\n"
    )


@pytest.mark.parametrize("text", ODD)
def test_progress_shows_text_as_it_is(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with progress.rows(1) as tell:
        tell(text)
    with progress.counter(text, 2):
        pass
    assert capsys.readouterr().err == f"    1/1  {text}\n{text}: 2\n"
