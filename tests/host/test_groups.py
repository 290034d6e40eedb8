"""Groups of rows and along K in wgmma: what is refused, how many tiles a launch has room for, what the model takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gemmgen.exports.record_reading import launch_from
from gemmgen.families import WGMMA
from gemmgen.families.base import first_rejection
from gemmgen.kernel.model import predict
from gemmgen.problem.device import DEVICES, parse_arch
from gemmgen.problem.gemm import Problem

LIMITS = parse_arch("sm_90a").limits


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"axes": {"PERSISTENT": 0}}, "only the device knows the tiles"),
        ({"axes": {"CLUSTER": 2}}, "which share no B"),
        ({"layout": "cr"}, "a group begins at any row"),
        ({"inputs": "groups=8+masked", "axes": {"PERSISTENT": 0}}, "only the device knows the tiles"),
        ({"inputs": "groups=8+masked", "sizes": (256, 256, 256), "axes": {"CLUSTER": 2}}, "which share no B"),
        ({"inputs": "groups=8+masked", "lda": 257}, "not copied"),
        ({"inputs": "groups=8+gathered", "axes": {"CLUSTER": 2}}, "which share no B"),
        ({"inputs": "groups=8+gathered", "axes": {"CLUSTER": 2, "ACROSS": 1}}, "for their own block alone"),
        ({"inputs": "gathered", "axes": {"CLUSTER": 2, "ACROSS": 1}}, "for their own block alone"),
        ({"inputs": "gathered", "axes": {"BM": 256, "BN": 32, "CONSUMERS": 4}}, "need more registers"),
        ({"inputs": "gathered", "lda": 257}, "gathered rows are not copied or split"),
        ({"inputs": "gathered", "types": "f32_bf16x6", "axes": {"IN_FLIGHT": 0}}, "gathered rows are not copied"),
        ({"inputs": "gathered", "types": "f32_tf32"}, "copy bits as they are"),
        ({"lda": 257}, "not copied"),
        ({"inputs": "groups=8+along_k"}, "a group begins at any k"),
        ({"inputs": "groups=8+along_k", "layout": "rr"}, "a group begins at any k"),
        ({"inputs": "groups=8+along_k", "layout": "cr", "lda": None}, "not copied"),
        ({"inputs": "groups=8+along_k", "layout": "cr", "types": "e4m3,e4m3,f32_promoted"}, "a group begins at any k"),
        (
            {
                "inputs": "groups=8+along_k",
                "layout": "cr",
                "sizes": (256, 256, None),
                "axes": {"SPLIT": 2, "PERSISTENT": 0},
            },
            "only the device knows the K of a group",
        ),
    ],
    ids=str,
)
def test_what_is_refused_says_why(changed: dict[str, Any], reason: str) -> None:
    fields: dict[str, Any] = {"layout": "rc", "inputs": "groups=8", "types": "bf16", **changed}
    axes = fields.pop("axes", {})
    problem = Problem(*fields.pop("sizes", (None, 256, 256)), **fields)
    config = WGMMA.default(problem).with_values(**axes)
    rejection = first_rejection(WGMMA, problem, config, LIMITS)
    assert rejection is not None and reason in rejection.constraint.because


@pytest.mark.parametrize("groups", [1, 3, 40])
def test_the_launch_has_room_for_the_tiles_of_any_ends(groups: int) -> None:
    problem = Problem(None, 256, 256, "bf16", "rc", inputs=f"groups={groups}")
    launch = WGMMA.plan(problem, WGMMA.default(problem).with_values(BM=64, BN=64, CONSUMERS=1)).launch
    rng = np.random.default_rng(groups)
    for rows in (1, 2, 63, 64, 65, 200):
        case = problem.case(m=rows)
        for _ in range(200):
            ends = np.sort(rng.integers(0, rows + 1, groups))
            tiles = int((-(-np.diff(ends, prepend=0) // 64)).sum()) * 4
            assert tiles <= launch.tiles(case)
        spread = np.minimum(np.arange(1, groups + 1), rows)  # a row each, and the rest for the last one
        spread[-1] = rows
        tiles = int((-(-np.diff(spread, prepend=0) // 64)).sum()) * 4
        assert launch.tiles(case) == tiles >= launch.typical_tiles(case)


@pytest.mark.parametrize("groups", [1, 3, 40])
def test_the_launch_has_room_for_all_rows_of_masked_groups(groups: int) -> None:
    problem = Problem(None, 256, 256, "bf16", "rc", inputs=f"groups={groups}+masked")
    launch = WGMMA.plan(problem, WGMMA.default(problem).with_values(BM=64, BN=64, CONSUMERS=1)).launch
    assert launch_from(launch.document) == launch and launch.document["groups"] == groups
    for rows in (1, 63, 64, 65, 200):
        case = problem.case(m=rows)
        assert launch.tiles(case) == launch.typical_tiles(case) == groups * -(-rows // 64) * 4


def test_no_sm_is_left_idle_where_the_number_of_tiles_is_unknown() -> None:
    problem = Problem(None, 256, 256, "bf16", "rc", inputs="groups=8")
    launch = WGMMA.plan(problem, WGMMA.default(problem)).launch
    assert launch.resident(140, 132) == 132 and launch.resident(20, 132) == 20
    assert launch_from(launch.document) == launch and launch.document["groups"] == 8


def test_the_model_takes_groups_for_equally_long() -> None:
    def time(m: int, inputs: str) -> float:
        problem = Problem(m, 1536, 2048, "bf16", "rc", inputs=inputs)
        config = WGMMA.default(problem)
        return predict(WGMMA.plan(problem, config), DEVICES["H200"]).time_us

    assert time(65536, "groups=128") == pytest.approx(time(65536, "plain"), rel=0.1), (
        "512 rows each, which tiles divide"
    )
    assert time(128 * 130, "groups=128") > 1.5 * time(128 * 130, "plain"), "of a second tile each two rows"
    assert time(16, "groups=128") < time(128, "groups=128") / 4, "groups without rows read no B"


def test_the_model_takes_groups_along_k_for_equally_deep() -> None:
    def time(groups: int, k: int) -> float:
        problem = Problem(1024, 1024, k, "bf16", "cr", inputs=f"groups={groups}+along_k")
        config = WGMMA.default(problem)
        return predict(WGMMA.plan(problem, config), DEVICES["H200"]).time_us

    assert time(64, 64 * 4096) == pytest.approx(64 / 8 * time(8, 8 * 4096), rel=0.1)
    assert time(64, 8 * 4096) < 2 * time(8, 8 * 4096), "no more products, but eight times as many C"
