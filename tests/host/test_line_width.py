"""Lines of rendered kernels end where a person would end them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemmgen.render.line_width import UNBROKEN, WIDTH, fitted

GOLDEN = Path(__file__).parent.parent / "golden"
ROOM = 60


@pytest.mark.parametrize(
    ("line", "broken"),
    [
        ("    f(first, second, third);", "    f(first, second, third);"),
        (
            "int sum(const float* from, int first, int second, int third, int fourth)",
            "int sum(const float* from, int first, int second, int third,\n        int fourth)",
        ),
        (
            "    x = f(a, b);  // a comment that leaves its code no room at all",
            "    // a comment that leaves its code no room at all\n    x = f(a, b);",
        ),
        (
            "    for (int i = 0; i < N; ++i) store(to + i * stride, from[i]);",
            "    for (int i = 0; i < N; ++i)\n        store(to + i * stride, from[i]);",
        ),
        (
            '    asm("one, two, three, four, five, six, seven", first, second);',
            '    asm("one, two, three, four, five, six, seven", first,\n        second);',
        ),
        (
            "// Words that go on below, where the same paragraph goes on, too.\n// It ends here.",
            "// Words that go on below, where the same paragraph goes on,\n// too.\n// It ends here.",
        ),
        (
            "// Words that go on below, where the same paragraph goes on as\n// it did before.",
            "// Words that go on below, where the same paragraph goes on\n// as it did before.",
        ),
        (
            "// Expects A and B at addresses divisible by 16, C overlapping none",
            "// Expects A and B at addresses divisible by 16, C\n//         overlapping none",
        ),
        (
            "//     C = relu(alpha * acc + beta * C + bias_n)      acc = A * B; sums in f32; never reads C",
            "//     C = relu(alpha * acc + beta * C + bias_n)\n//     acc = A * B; sums in f32; never reads C",
        ),
        (
            "// Launch  ceil(M / 128) * ceil(N / 128) blocks of 256 threads, bytes\n// Expects A and B",
            "// Launch  ceil(M / 128) * ceil(N / 128) blocks of 256\n//         threads, bytes\n// Expects A and B",
        ),
        (
            "// Split-K 2 blocks compute a tile, each over its own part of K\n// a sentence of its own",
            "// Split-K 2 blocks compute a tile, each over its own part\n//         of K\n// a sentence of its own",
        ),
        (
            "inline Vec<F16, N> results(const Epilogue& e, int n, Vec<F16, N> value) {",
            "inline Vec<F16, N> results(const Epilogue& e, int n,\n                           Vec<F16, N> value) {",
        ),
        ("// Made by gemmgen generate 512x512x512 --family wgmma --set BM=64", None),
        ('    "no place in which this line of text could ever be broken;"', None),
    ],
)
def test_a_long_line_is_broken(line: str, broken: str | None) -> None:
    assert fitted(line, ROOM) == (line if broken is None else broken)


@given(st.lists(st.tuples(st.text("ab;", min_size=1, max_size=70), st.integers(1, 9)), min_size=1, max_size=20))
def test_a_comment_ends_and_keeps_its_words(words: list[tuple[str, int]]) -> None:
    line = "//" + "".join(" " * gap + word for word, gap in words)
    broken = fitted(line, ROOM)
    assert broken.replace("//", "").split() == line.replace("//", "").split()
    assert all(len(one) <= ROOM or len(max(one.split(), key=len)) > ROOM // 2 - 12 for one in broken.split("\n"))


def test_no_line_of_a_kernel_is_longer_than_120_characters() -> None:
    lines = [line for path in GOLDEN.glob("*.cu") for line in path.read_text().split("\n")]
    assert not [line for line in lines if len(line) > WIDTH and not line.startswith(UNBROKEN)]


def test_lines_of_a_header_keep_their_labels() -> None:
    for path in GOLDEN.glob("*.cu"):
        header = path.read_text().partition("\nnamespace {")[0].split("\n")
        found = [line[:10] for line in header if line[3:4].isupper()]
        assert [label for label in found if label.strip("/ ") in ("Launch", "Expects", "Config", "Made by")] == [
            "// Launch ",
            "// Expects",
            "// Config ",
            "// Made by",
        ], path.name
