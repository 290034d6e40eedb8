"""The calls by which the rows that a library's kernels compute are compared, once it is made and at any time later."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from gemmgen.exports.library.choice import Rule
from gemmgen.exports.library.choices_json import by_product, rule_from
from gemmgen.exports.library.members import NAME as CUBLASLT
from gemmgen.exports.library.members import Needs
from gemmgen.kernel.source import KernelSource
from gemmgen.support.errors import require
from gemmgen.verification.invariance import SIZES, Call

ANY = 256  # N and K, where nothing says which
BATCH = 2  # products of a batch whose number is left to run time
GIVEN = (Needs.ALIGNED | Needs.DENSE, Needs.NONE)  # what calls meet: all that kernels may need, and nothing


def calls_of_library(folder: Path, arch: str, sizes: Sequence[int] = SIZES) -> dict[str, list[list[Call]]]:
    """For each product of the library in `folder`, by name: for each N and K the calls whose rows are compared.

    Each call goes to the kernel that the library's rules choose on a device of `arch` ("sm_90"). Raises InvalidInput if
    `folder` holds no library, or none for this architecture.
    """
    return by_product(folder, arch, lambda choice, kernel: [*_calls(choice, kernel, sizes)])


def _calls(choice: Any, kernel: Callable[[str], KernelSource], sizes: Sequence[int]) -> Iterator[list[Call]]:
    names = [one["name"] for one in choice["kernels"]]
    require(CUBLASLT not in names, f"cuBLASLt serves calls of {choice['product']}: the bits of its rows depend on M")
    rules = [rule_from(one, names) for one in choice["rules"]]
    timed = [(n, k) for _, _, n, k, *_ in choice["times"]["points"]]
    return calls_by_rules(rules, [kernel(name) for name in names], timed, sizes)


def calls_by_rules(
    rules: Sequence[Rule],
    kernels: Sequence[KernelSource],
    timed: Sequence[tuple[int, int]],
    sizes: Sequence[int] = SIZES,
) -> Iterator[list[Call]]:
    """Yield the calls, M by M, for the least and the largest (N, K) that were `timed`; rules choose among `kernels`.

    A single kernel is not timed: then N and K are those for which it is built, or ANY.
    """
    alone = kernels[0].problem
    pairs = timed or [(alone.n or ANY, alone.k or ANY)]
    for n, k in dict.fromkeys((min(pairs), max(pairs))):
        yield [_call(rules, kernels, (m, n, k), given) for m in sizes for given in GIVEN]


def _call(rules: Sequence[Rule], kernels: Sequence[KernelSource], sizes: tuple[int, int, int], given: Needs) -> Call:
    rule = next(one for one in rules if one.needs in given and one.box.holds(sizes))
    source = kernels[rule.kernel(sizes, BATCH)]
    problem, by_name = source.problem, dict(zip("MNK", sizes, strict=True))
    odd = {one.ld: (one.extent(one.line, by_name) or 0) | 1 for one in problem.matrices} if not given else {}
    odd = {name: ld for name, ld in odd.items() if problem.sizes[name] is None and problem.ld_align == 1}
    m, n, k = sizes
    return Call(source, problem.case(m=m, n=n, k=k, batch=(problem.batch or BATCH) if problem.batched else None, **odd))
