"""The page of `gemmgen report` in a real browser: its script works, plots cut nothing off, both themes can be read."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import gemmgen as api
from gemmgen.lab import api as lab_api
from gemmgen.problem.gemm import Problem

REPOSITORY = Path(__file__).parents[2]
SECONDS = 120  # until a browser counts as hung

FIRST = "<script>window.errors = []; addEventListener('error', (event) => errors.push(event.message));</script>"
LOOK = Path(__file__).parent / "data" / "look_at_page.js"


def browse(browser: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """The page in `folder`, with a profile of its own and no sandbox, which containers do not allow.

    The browser itself asks the network for nothing.
    """
    quiet = ("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync")
    own = ("--headless", "--no-sandbox", "--disable-gpu", *quiet, f"--user-data-dir={folder / 'profile'}")
    url = (folder / "page.html").as_uri()
    command = [browser, *own, *options, url]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS)


FEW = ("gemm_bf16_rc_4096x4096x4096_*", "gemm_f32_rr_1024x*", "gemm_f32_rr_b4096_16x16*", "study_ladder_*")


@pytest.fixture(scope="module", params=["desk", "phone"])
def seen(browser: str, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> dict[str, Any]:
    """What the report page says of itself: of hundreds of kernels on a wide screen, of a few on a phone."""
    folder, kernels, size = tmp_path_factory.mktemp("browser"), REPOSITORY / "generated" / "sm_90_h100", "1200,900"
    if request.param == "phone":
        kernels, size = folder / "few", "420,800"
        kernels.mkdir()
        for path in (path for pattern in FEW for path in (REPOSITORY / "generated" / "sm_90").glob(pattern)):
            shutil.copy(path, kernels)
    to = folder / "page.html"
    lab_api.report(kernels, to=to)
    text = to.read_text().replace("<head>", f"<head>{FIRST}")
    to.write_text(text.replace("</body>", f"<script>{LOOK.read_text()}</script></body>"))
    dump = browse(browser, folder, "--dump-dom", f"--window-size={size}").stdout
    found = re.search(r'<pre id="seen">(.*?)</pre>', dump, re.DOTALL)
    assert found is not None, "the script that looks at the page did not end"
    return dict(json.loads(html.unescape(found[1])))


def test_nothing_fails_on_the_page(seen: dict[str, Any]) -> None:
    assert seen["errors"] == []


def test_both_themes_can_be_read(seen: dict[str, Any]) -> None:
    assert len({theme["ground"] for theme in seen["themes"]}) == 2
    assert all(theme["contrast"] >= 4.5 for theme in seen["themes"]), "of text to its ground, as WCAG AA asks"


def test_words_leave_the_kernels_that_have_them(seen: dict[str, Any]) -> None:
    before, after = seen["rows"]
    assert 0 < after < before and all("bf16" in text and "wgmma" in text for text in seen["filtered"])
    assert seen["count"] == f"{after} of {before}"


def test_the_keyboard_reaches_every_link_but_the_dots(seen: dict[str, Any]) -> None:
    assert seen["unreachable"] == 0


def test_plots_cut_no_text_off_and_nothing_widens_the_page(seen: dict[str, Any]) -> None:
    assert seen["cut"] == [] and seen["wide"] <= 0


def test_the_page_prints(browser: str, tmp_path: Path) -> None:
    api.generate(Problem(512, 512, 512), family="simt", out=tmp_path)
    lab_api.report(tmp_path, to=tmp_path / "page.html")
    to = tmp_path / "page.pdf"
    browse(browser, tmp_path, f"--print-to-pdf={to}", "--no-pdf-header-footer")
    assert to.read_bytes().startswith(b"%PDF")
