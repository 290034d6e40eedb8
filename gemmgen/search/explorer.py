"""The spaces of a problem's families, ranked: in this process, or in one that explores many problems for another."""

from __future__ import annotations

from collections.abc import Sequence

from gemmgen.families import FAMILIES, NAIVE, SEARCHED, Config, Family
from gemmgen.problem.device import DeviceSpec
from gemmgen.problem.gemm import Problem
from gemmgen.search.order import Ranked, Search
from gemmgen.search.space import Space, explore

Named = tuple[str, Config]  # a family's name and a config of it: what travels between processes
PROCESS = "gemmgen.search.explorer:Explorer"


def search_of(
    problem: Problem, families: Sequence[Family], device: DeviceSpec, summation: str | None = None
) -> tuple[Search, list[Space]]:
    """Search the spaces of `families` for configs of the class `summation` (None: any); return the search, and all
    spaces that were explored, even those without a config.

    Families that are hopeless compared with another are left out. If no searched family has a config (two products on a
    card without wgmma, say), `naive` stands in.
    """
    search, explored = Search((), device, summation), []
    for family in reversed(families):  # those of tensor cores stand last
        if search.hopeless(family, problem):
            continue
        explored.append(explore(family, problem, device))
        if explored[-1].accepted:
            search.add(explored[-1])
    if not search.spaces and tuple(families) == SEARCHED:
        search, more = search_of(problem, (NAIVE,), device, summation)
        explored += more
    return search, explored


def unsuited(problem: Problem, arch: str, explored: Sequence[Space]) -> str:
    """Why no family of `explored` has a config for `problem`: the rule that its last configs broke."""
    broken: dict[str, list[str]] = {}
    for space in explored:
        rule = space.decisive
        reason = "nothing to try" if rule is None else f"{rule.because} ({rule.expression})"
        broken.setdefault(reason, []).append(space.family.name)
    reasons = "; ".join(f"{', '.join(families)}: {reason}" for reason, families in broken.items())
    return f"no kernel family has a config for {problem} on {arch}: {reasons}"


class Explorer:
    """Proposes configs for several problems: first without times, then from the times of some configs.

    The factory of a child process (gemmgen.support.child): exploring takes about two seconds per problem.
    """

    def __init__(self) -> None:
        self._searches: dict[Problem, Search] = {}

    def __call__(
        self, message: tuple[Problem, DeviceSpec, str | None, int, Sequence[tuple[Named, float]]]
    ) -> list[Named]:
        """Return up to `count` configs of the class `summation` to try for `problem`. `timed` are those with times, in
        microseconds; none at first."""
        problem, device, summation, count, timed = message
        search = self._searches.get(problem)
        if search is None:
            search = self._searches[problem] = search_of(problem, SEARCHED, device, summation)[0]
        entries = further(search, count, timed) if timed else search.first(count)
        return [(entry.family.name, entry.config) for entry in entries]


def further(search: Search, count: int, timed: Sequence[tuple[Named, float]]) -> list[Ranked]:
    """Return up to `count` untried configs around the fastest of `timed`: half with other details, half with other
    tiles."""
    search.given([(FAMILIES[name], config) for (name, config), _ in timed])
    times = search.known([(config, us) for (_, config), us in timed])
    if not times:
        return search.first(count)
    return search.around(count, (count + 1) // 2, search.details(times), times)
