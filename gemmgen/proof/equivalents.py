"""Mutants with other machine code that are not mistakes, with the reasons that a person found."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from gemmgen.kernel.source import KernelSource
from gemmgen.proof.mutants import Mutant


def _one_group(source: KernelSource) -> bool:
    """Whether C has a fixed number of tile rows, no more than one group of the raster."""
    m, tile = source.problem.m, dict(source.launch.grid).get("M", 1)
    return m is not None and -(-m // tile) <= source.config.get("GROUP", 0)


def _few_rows(source: KernelSource) -> bool:
    """Whether C has a fixed number of rows, so few that any type can count its groups of tiles."""
    return source.problem.m is not None and source.problem.m < 2**15


def _begins_full(source: KernelSource) -> bool:
    """Whether every block has a k tile for each stage that it fills before its first product."""
    problem, launch = source.problem, source.launch
    if None in (problem.m, problem.n, problem.k, problem.batch) or launch.splits > 1:
        return False
    case = problem.case()
    deep = -(-case.k // source.config["BK"])
    k_tiles = deep if launch.stream is None else launch.schedule(launch.stream, case).fewest_k_tiles
    return k_tiles >= source.config["STAGES"] - 1


def _shallow(source: KernelSource) -> bool:
    """Whether a k tile is so short that any type can count its k."""
    return source.config.get("BK", 0) <= 2**7


def _is_linear(source: KernelSource) -> bool:
    return source.problem.epilogue.is_linear


def _one_instruction_down(source: KernelSource) -> bool:
    """Whether a block of wgmma has one consumer, and one instruction down its tile."""
    return source.config["BM"] == 64 and source.config["CONSUMERS"] == 1


@dataclass(frozen=True)
class Equivalent:
    """Mutants whose `str` matches the regular expression `words`, and the reason why they compute the same.

    Only survivors are looked up: a mutant that a situation kills is not equivalent, whatever its words.

    text  a regular expression that the original kernel must match
    when  a condition that the original kernel must satisfy
    """

    words: str
    reason: str
    text: str = ""
    when: Callable[[KernelSource], bool] = lambda source: True


NARROWER = r"(?:short|signed char|unsigned|float)"

EQUIVALENTS = (
    Equivalent(
        r"-> const int i = j % (2 \? step : TM - 1 - step|[1-9] \? TM - 1 - step : step);",
        "a thread's sums in another order, each of them once",
    ),
    Equivalent(r"load_edge\(const float\* from, float valid\)", "a float holds what counts the elements of a vector"),
    Equivalent(r"-> chunk\[depth\]\[line\] = exists \? A\[at\] : ", "what does not exist meets weights that are zero"),
    Equivalent(
        r"if \(s\.K == 0\) alpha = 0\.0f?; -> if \(s\.K == 0\) alpha = -?\d\.\df?;",
        "where K = 0 the sum is zero, and any finite alpha gives zero",
    ),
    Equivalent(
        r"if \(.+ && (\w+ >= [\w* ]+)\) break; -> if \(.+ && \1\) break;",
        "constants say whether the check is needed: one more is never met, and one less is of what never is",
    ),
    Equivalent(
        r"-> if \(([AB])_STRIDED % \1_PASS (?:!= 1|>= 0) &&",
        "where passes divide the tile, the check that is left is never met",
    ),
    Equivalent(
        r"load_fragment_b\(.*, b\[d % 2\]\); "
        r"(outer_product<0, HOIST>\(a\[\(d \+ 1\) % 2\], b\[\(d \+ 1\) % 2\], acc\);) -> \1",
        "fragments of two k, of which neither needs the other's",
    ),
    Equivalent(
        r"const bool inside = (.*)depth >= BK; -> const bool inside = \1depth (?:> BK|>= \(BK \+ 1\));",
        "one k tile more takes the path with checks, which none of its elements fails",
    ),
    Equivalent(
        r"const bool inside = (\w+) >= (B[MN]) && (.*) -> const bool inside = \1 (?:==|>) \2 && \3|"
        r"if \(inside\) start_\w<false>\(.*\); -> if \(false\);$",
        "some tiles more, or all, take the path with checks, which none of their elements fails",
    ),
    Equivalent(
        rf"for \(int (\w+) = 0; (\1 < [A-Z_]+(?: - 1)?;.*) -> for \({NARROWER} \1 = 0; \2",
        "the loop counts to a small constant, which any type holds",
    ),
    Equivalent(rf"int read = 0, write = STAGES - 1; -> {NARROWER} read", "the number of a stage, which any type holds"),
    Equivalent(
        rf": int previous = 0; -> {NARROWER} previous = 0;",
        "the number of a stage, which any type holds",
    ),
    Equivalent(
        r"const int (m|n|element|first) = (.*) -> const unsigned \1 = \2",
        "a row, column or element, which is never negative",
    ),
    Equivalent(
        r"for \(int i = threadIdx\.x; (.*) -> for \(unsigned i = threadIdx\.x; \1",
        "an element of a tile, which is never negative",
    ),
    Equivalent(
        rf"\b(mma|load_fragments_[ab])\((.*)\bint (k|k_step), .* -> .*\b\1\(\2{NARROWER} \3, ",
        "a k of a k tile, which any type holds",
        when=_shallow,
    ),
    Equivalent(
        r"const int m = (.*) -> const short m = \1",
        "a row of few, which any type holds",
        text=r"constexpr int M = \d{1,4};",
    ),
    Equivalent(
        rf"const int strided = threadIdx\.x / (.*) -> const {NARROWER} strided = threadIdx\.x / \1",
        "a thread's line of a tile, which any type holds",
    ),
    Equivalent(
        rf"void start_(\w)\((.*)int depth, .* -> .*void start_\1\(\2{NARROWER} depth,",
        "as much as a k tile is deep, at most, which any type holds",
    ),
    Equivalent(
        r"if \((\w+ % \w+ != 0) && (.*)\) break; -> if \(\1 \|\| \2\) break;",
        "where passes divide the tile, neither is met",
    ),
    Equivalent(
        r"if \((OUTPUTS \* THREADS != BM \* BN) && (.*)\) break; -> if \(\1 \|\| \2\) break;",
        "threads have the elements of a whole tile between them: neither is met",
    ),
    Equivalent(
        r"if \(m >= s\.M \|\| n >= s\.N\) return; -> if \(m >= s\.M && n >= s\.N\) return;",
        "tiles divide sizes that are fixed, so that neither is met",
        text=r"static constexpr int M = \d+;\s+static constexpr int N = \d+;",
    ),
    Equivalent(
        r"if \((\w+ % \w+) != 0 && (.*)\) break; -> if \(\1 == 0 && \2\) break;",
        "where passes divide the tile, the check that is there now is never met",
    ),
    Equivalent(
        r"columns = \(s\.N \+ BN - 1\) / BN; -> .*columns = \(s\.N [-+*] BN [-+] \d\) [-+*/%] B[MN];",
        "tiles of one group of rows, however many columns it is said to have",
        when=_one_group,
    ),
    Equivalent(
        r"((?:sums_of_piece|wmma_store)\(.*\);|for \(.*\) stored\.at\[i\] = .*;) -> \1 \1$",
        "the same registers copied twice",
    ),
    Equivalent(
        r"\b(j|step) \+= ([\w* ]+)\) \{ -> .*\b\1 \^= \2\) \{",
        "a loop of one pass: two would not end",
    ),
    Equivalent(
        r"return \{min\(K, split \* extent\), (.*) -> return \{min\(\(K \+ 1\), split \* extent\), \1",
        "a range that begins behind K has no k tile either",
    ),
    Equivalent(
        r"(if \(product >= s\.batch\) return;) (A \+= .*;) -> \2 \1$",
        "a thread that has no product reads nothing, wherever it would",
    ),
    Equivalent(
        r"(.*)\bbeta == 0\.0f \? 0\.0f : (.*) -> .*\bbeta == 0\.0f \? -?\d\.\df : \2",
        "where beta = 0, any finite number times beta is 0",
    ),
    Equivalent(
        r"(tma_load_\w+\(shared\.a.*;) (tma_load_\w+\(shared\.b.*;) -> \2 \1",
        "two copies whose bytes one barrier counts, whichever starts first",
    ),
    Equivalent(
        r"wmma_load_a_.*wmma_load_b_.* -> .*wmma_load_b_.*wmma_load_a_",
        "loads of two operands, of which neither needs the other",
    ),
    Equivalent(
        r"static constexpr int N = (\d+); -> static constexpr int N = ",
        "as many tiles of columns: TMA's map of C drops what lies beyond its last one",
        text=r"tma_store_2d\(&map_c",
    ),
    Equivalent(
        r"^launch, launch: (.*), shared_bytes=\d+, (.*) -> \1, shared_bytes=\d+, \2$",
        "no thread touches the bytes left out, which pad to an alignment",
    ),
    Equivalent(
        r"^launch, launch: (.*), grid=.*, (shared_bytes=.*) -> \1, grid=.*, \2$",
        "blocks go from tile to tile until there is none left, be they fewer",
        when=lambda source: source.launch.persistent,
    ),
    Equivalent(
        r"tile\.m \+ (\(consumer \* MMAS_M \+ i\) \* 64), (.*) -> .*tile\.m - \1, \2",
        "the block's one consumer and its one instruction have number 0",
        when=_one_instruction_down,
    ),
    Equivalent(
        r"make_descriptor<.*>\(shared\.a\[stage\] \+ first \* LINE_A, 16, -> .* \+ first \* 16, LINE_A,",
        "the block's one consumer begins at line 0, and a swizzled tile along k has no use for `leading`",
        when=_one_instruction_down,
    ),
    Equivalent(
        r"if \(depth > 0\) \{ -> if \((?:true|\(depth \+ 1\) > 0|depth >= 0|depth != 0)\) \{",
        "a k tile behind the last one has no elements: zeros come in its place, which nobody multiplies",
        text=r"(?:fetch|copy)_a\(a_tile, s, rows, depth, ",
    ),
    Equivalent(
        r"if \(depth > 0\) \{ -> if \((?:true|\(depth \+ 1\) > 0|depth >= 0|depth != 0)\) \{",
        "there is a k tile for each of the first stages",
        text=r"depth = (?:extent|s\.K) - stage \* BK;",
        when=_begins_full,
    ),
    Equivalent(
        r"if \(depth > 0\) \{ -> if \((?:true|\(depth \+ 1\) > 0|depth >= 0|depth != 0)\) \{",
        "behind the last k tile nobody reads what its stage gets",
        text=r"store_shared_a\(a_staged, ",
    ),
    Equivalent(
        r"deletion, .*: if \(i < valid\) (to\[i\] = .*) -> \1$",
        "what is staged of columns that C has not, TMA drops",
        text=r"tma_store_2d\(&map_c",
        when=_is_linear,
    ),
    Equivalent(
        r"deletion, .*: if \(m >= rows\) return; -> ;$",
        "what is staged of rows that C has not, TMA drops",
        text=r"tma_store_2d\(&map_c",
        when=_is_linear,
    ),
    Equivalent(
        rf"const int (lane_[mn]) = .* -> const {NARROWER} \1 = |lane_origin\(int lane\) -> .*\({NARROWER} lane\)",
        "a lane's number, or row, which any type holds",
    ),
    Equivalent(
        rf"const int group = (.*) -> const {NARROWER} group = \1",
        "a group of few tile rows, whose number any type holds",
        when=_few_rows,
    ),
    Equivalent(
        r"if \(leads\) (tma_store_wait_read<[^;]*;) -> \1$", "a thread that has started no stores waits for none"
    ),
    Equivalent(
        r"constexpr int STAGES = (\d+); -> constexpr int STAGES = ",
        "another number of stages, where shared memory has room for it",
    ),
    Equivalent(
        r"constexpr int (SUMS_PITCH) = (.*); -> constexpr int \1 = |"
        r"constexpr int (SHARED_[AB]) = BK \* PITCH_[AB]; -> constexpr int \3 = BK \* PITCH_|"
        r"constexpr int SHARED_WORDS = (.*)\(SUMS_WORDS > CHUNK_WORDS\); -> .*\(SUMS_WORDS != CHUNK_WORDS\);",
        "more shared memory than is needed",
    ),
    Equivalent(
        r"some\[i\] = from\[i\]; -> .*some\[\(i \+ 1\)\] = from\[i\];",
        "both operands of dot products pass it, so that products keep their partners",
        text="dp4a",
    ),
)


def why_equivalent(mutant: Mutant) -> str | None:
    """The reason why a mutant is equivalent; None if no entry matches."""
    fits = (
        known.reason
        for known in EQUIVALENTS
        if re.search(known.words, str(mutant))
        and re.search(known.text, mutant.original.text)
        and known.when(mutant.original)
    )
    return next(fits, None)
