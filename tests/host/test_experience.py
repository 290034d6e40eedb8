"""What won searches on a card, kept for the next: the nearest problems' first, and what is no use left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmgen.families import SIMT, SKINNY
from gemmgen.problem.gemm import Problem
from gemmgen.search import experience
from gemmgen.search.experience import NEAREST, nearest, remember, was_searched
from gemmgen.support.files import Store

CARD = "a card"
BOTH = (SIMT, SKINNY)


def cube(size: int, **how: object) -> Problem:
    return Problem(size, size, size, **how)  # type: ignore[arg-type]


def config(tile: int):
    return SIMT.default(cube(512)).with_values(BM=tile)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    known = Store(tmp_path)
    for size in (256, 512, 1024, 2048, 4096, 8192):
        remember(known, CARD, cube(size), "simt", config(size))
    return known


def test_the_nearest_problems_come_first_and_the_problem_itself_not(store: Store) -> None:
    found = nearest(store, CARD, cube(1024), BOTH)
    assert [one.BM for _, one in found] == [2048, 512, 4096, 256]
    assert all(family is SIMT for family, _ in found) and len(found) == NEAREST


def test_a_search_is_on_record_by_its_sizes(store: Store) -> None:
    assert was_searched(store, CARD, cube(1024)) and not was_searched(store, CARD, cube(1023))
    assert not was_searched(store, "another card", cube(1024))


def test_an_epilogue_and_what_is_left_to_run_time_make_another_problem(store: Store) -> None:
    fused, open_m = cube(1024, epilogue="bias"), Problem(None, 1024, 1024, typical=(("M", 1024),))
    for problem in (fused, open_m):
        assert not was_searched(store, CARD, problem)
        assert nearest(store, CARD, problem, BOTH)[0][1].BM == 1024, "as near as can be"
    remember(store, CARD, fused, "simt", config(64))
    assert was_searched(store, CARD, fused) and nearest(store, CARD, open_m, BOTH)[0][1].BM == 64, "the newest first"
    assert nearest(store, CARD, fused, BOTH)[0][1].BM == 1024


def test_another_card_type_or_layout_has_winners_of_its_own(store: Store) -> None:
    assert nearest(store, "another card", cube(1024), BOTH) == []
    assert nearest(store, CARD, cube(1024, types="bf16"), BOTH) == []
    assert nearest(store, CARD, cube(1024, layout="rc"), BOTH) == []
    assert nearest(store, CARD, cube(1024), (SKINNY,)) == [], "families that are not searched"


def test_a_winner_far_away_says_nothing(store: Store) -> None:
    assert [one.BM for _, one in nearest(store, CARD, Problem(1, 256, 256), BOTH)] == []
    assert [one.BM for _, one in nearest(store, CARD, Problem(64, 256, 256), BOTH)] == [256, 512]


def test_the_newest_winner_of_a_problem_counts_and_the_oldest_are_forgotten(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(store, CARD, cube(512), "simt", config(96))
    assert [one.BM for _, one in nearest(store, CARD, cube(1024), BOTH)] == [96, 2048, 4096, 256]
    monkeypatch.setattr(experience, "KEPT", 2)
    remember(store, CARD, cube(2048), "simt", config(64))
    assert [one.BM for _, one in nearest(store, CARD, cube(1024), BOTH)] == [64, 96]


def test_winners_of_another_version_are_left_out(store: Store) -> None:
    remember(store, CARD, cube(1000), "of old", config(8))
    remember(store, CARD, cube(1001), "skinny", config(8))
    assert [one.BM for _, one in nearest(store, CARD, cube(1024), BOTH)] == [2048, 512, 4096, 256]
    key = experience._key(CARD, cube(1))
    for payload in (b"no JSON", b'{"sizes": 1}', b'[{"sizes": 3}]'):
        store.put(experience.KIND, key, payload)
        assert nearest(store, CARD, cube(1024), BOTH) == []
