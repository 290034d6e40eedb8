"""Probes in a kernel's text: where they stand, and where they do not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gemmgen.run.emulator.conditions import probed
from gemmgen.run.emulator.probes import COMPARISONS, MOST_SITES, Block, Condition
from gemmgen.run.emulator.tokens import tokens_of

KERNELS = sorted((Path(__file__).parents[1] / "golden").rglob("*.cu"))
COMPARED = re.compile(r"compared<\d+, (\d)>")


def conditions(text: str) -> list[str]:
    """Those of a function with the body `text`."""
    sites = probed(f"template <int N> void f(int m, float* p) {{\nconstexpr int T = 4;\n{text}\n}}").sites
    return [site.text for site in sites if isinstance(site, Condition)]


SHOWN = {
    "if (m < 3) m = 0;": ["m < 3"],
    "if (m > 40 && m < 50 || !p) m = 0;": ["m > 40", "m < 50", "!p"],
    "if (!(m == 1 && (m & 3))) m = 0;": ["m == 1", "m & 3"],
    "while (m % 37 != 0) --m;": ["m % 37 != 0"],
    "do --m; while (m);": ["m"],
    "for (int k = 0; k < m; k += 8) p[k] = 0;": ["k < m"],
    "m = m > 3 ? m == 5 ? 1 : 2 : m < 0 ? 3 : 4;": ["m > 3", "m == 5", "m < 0"],
    "const bool some = m >= T;": ["m >= T"],
    "return f<int>(m < 2, p == nullptr);": ["m < 2", "p == nullptr"],
    "p[m == 7 ? 0 : 1] += 2.0f * (m != 9);": ["m == 7", "m != 9"],
    "const Vec<4> v = {m < 2 ? 1.0f : 0.0f};": ["m < 2"],
    "if (const int n = m; n > 1) m = 0;": ["n > 1"],
    "if (int n = m) m = 0;": [],
    "if (m = 3, m < 4) m = 0;": ["m < 4"],
    "if (m << 2 < 8 and not p or (m & 1) == 0) m = 0;": ["m << 2 < 8", "not p", "(m & 1) == 0"],
    "if (m & 1 == 0) m = 0;": ["m & 1 == 0"],
    "p[0] = m /* < 2 */ - 1;  // m < 3": [],
    'printf("%d < 3 ? 1 : 0", m);': [],
    # What no run changes, or what is no condition at all.
    "for (int i = 0; i < T; ++i) p[i] = i % 2 ? 1 : i == 3;": [],
    "for (int i = 0, j = N; i < j; ++i) p[i] = 0;": [],
    "for (int i = 0; i < T; ++i) if (i < m) p[i] = 0;": ["i < m"],
    "const int half = N / 2; if (half > 1) m = 0;": [],
    "if constexpr (T > 3) m = 0;": [],
    'static_assert(T > 3 && N < 9, "a number");': [],
    "#if M > 3 && N\nm = 0;\n#endif": [],
    'asm volatile("add %0" : "+r"(m) : "r"(m > 3));': [],
    "const Tile<T, N>& tile = *reinterpret_cast<const Tile<T, N>*>(p);": [],
    "float& (&f)[T] = g<T>(p), h = a->b;": [],
}


@pytest.mark.parametrize("text", SHOWN)
def test_conditions_of(text: str) -> None:
    assert conditions(text) == SHOWN[text]


def test_a_comparison_has_its_own_operands_alone() -> None:
    made = probed("void f(int m) { if (m < 8 and m & 1) m = 0; }").text
    assert "compared<1, 2>(m , 8) and  ::gemmgen::taken<2>(m & 1)" in made


def test_the_labels_of_a_switch_are_comparisons() -> None:
    text = """\
void f(int d)
{
  switch (d > 1 ? d & 7 : 0) {
    case 1: e(); break;
    case A::B: switch (g) { case 9: h(); }
    case 2 ... 4: { j(); }
    default: k();
  }
  switch (constant<2>()) { default: k(); }
}
"""
    made = probed(text)
    texts = [(site.line, site.text) for site in made.sites if isinstance(site, Condition)]
    chosen = "d > 1 ? d & 7 : 0"
    assert texts == [(3, "d > 1"), (4, f"{chosen} == 1"), (5, f"{chosen} == A::B"), (5, "g == 9")]
    labels = "::gemmgen::Label<2, (long long)(1)>{}, ::gemmgen::Label<3, (long long)(A::B)>{}"
    compared = " ::gemmgen::compared<1, 3>(d , 1) ? d & 7 : 0"
    assert f"switch ( ::gemmgen::chosen({compared}, {labels})) {{" in made.text


def test_blocks_have_their_lines() -> None:
    text = "void f()\n{\n  if (a) {\n    b();\n  } else {\n    c();\n  }\n  switch (d) {\n    case 1: e();\n  }\n}\n"
    blocks = [(site.line, site.last) for site in probed(text).sites if isinstance(site, Block)]
    assert blocks == [(2, 11), (3, 5), (5, 7), (9, 9)]
    assert not probed("struct S {\n  int a;\n};\nint x[] = {1, 2};\n").sites


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_all_else_stays_as_it_is(path: Path) -> None:
    """Without the probes a text is what it was: lines and words, but for a comma in the place of a comparison."""
    text = path.read_text()
    made = probed(text)
    assert made.sites and made.text.count("\n") == text.count("\n")
    numbers = [int(number) for number in re.findall(r"::gemmgen::\w+<(\d+)", made.text)]
    assert sorted(numbers) == [*range(len(made.sites))]
    bare = re.sub(r" ::gemmgen::(?:reached<\d+>\(\)|unset\(\w+\));", "", made.text)
    bare = re.sub(r" ::gemmgen::(?:taken<\d+>|compared<\d+, \d>)\(", "(", bare)
    left = [token.text for token in tokens_of(text)][::-1]
    for token in tokens_of(bare):
        if token.text == left[-1] or (token.text == "," and left[-1] in COMPARISONS):
            left.pop()
        else:
            assert token.text in ("(", ")"), f"`{token.text}` in the place of `{left[-1]}`"
    assert not left


UNSET = {  # statements, and the variables that they declare and leave without a value
    "float a[D][T + 1], b;": ["a", "b"],
    "Vec<Pair<T, 4>, N> old;": ["old"],
    "unsigned char x; unsigned y; long long z[2];": ["x", "y", "z"],
    "typename Some<T>::Type word; ns::Type other; float* p;": ["word", "other", "p"],
    "if (m) { half2 h; } for (int i = 0; i < T; ++i) { float f[T]; }": ["h", "f"],
    "{ int i; }": ["i"],
    "__shared__ float s[T]; static int n; extern int e; bool b; constexpr int c = 1;": [],
    "float a = 1.0f, b[2] = {}; Vec<4> v{m}; Type t(m); auto& r = m; const int k = 2;": [],
    "struct S { int a; float b[2]; }; using V = float[4]; typedef int I;": [],
    'return; a[i] = b; a * b + c; f(a, b); ++i; goto end; asm volatile("a b" : "=r"(m));': [],
}


@pytest.mark.parametrize("text", UNSET)
def test_variables_without_a_value(text: str) -> None:
    made = probed(f"struct M {{\n    int m;\n}};\nint g;\nvoid f(int m)\n{{\n{text}\n}}").text
    assert re.findall(r" ::gemmgen::unset\((\w+)\);", made) == UNSET[text]


def test_operators_have_numbers() -> None:
    for number, operator in enumerate(COMPARISONS):
        assert COMPARED.search(probed(f"bool f(int a) {{ return a {operator} 3; }}").text)[1] == str(number)


def test_more_conditions_than_there_is_room_for_have_no_probes() -> None:
    text = f"void f(int a) {{ {'if (a) a = 0; ' * MOST_SITES} }}"
    assert probed(text).text == text and not probed(text).sites


@pytest.mark.parametrize("text", ["}}}", "if (", "a ? b", "template <", "f(a < b", "for (;;)", "case", "{ x = {", ")("])
def test_what_is_no_cplusplus_is_left_to_the_compiler(text: str) -> None:
    assert probed(text).text.count("\n") == 0
