"""Tensor maps as data of a launch, and the table of wgmma."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemmgen.kernel.contract import MAP_TYPE, Contract, Parameter
from gemmgen.kernel.launch import Launch
from gemmgen.kernel.tensor_map import BOUND, MAP_ALIGNMENT, MAP_BYTES, TensorMap, TiledTensor, tail_lines
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.types import Types
from gemmgen.problem.wgmma import Wgmma, wgmmas
from gemmgen.run.arguments import arguments_of
from gemmgen.support.errors import InvalidInput

BF16 = Problem(None, None, None, types=Types.parse("bf16"))
MAP_A = TensorMap("A", (64, 128), swizzle=128)
GRID = (("M", 128), ("N", 128))
POINTERS = replace(BF16, batch=None, pointers=True)
MAP_ANYWHERE = TensorMap("A", (64, 128, 1, 1), swizzle=128, anywhere=True)


def test_a_map_says_how_its_operand_lies() -> None:
    tensor = MAP_A.of(BF16.case(100, 200, 72))
    assert (tensor.sizes, tensor.strides, tensor.element_bytes) == ((72, 100), (144,), 2)
    assert (tensor.box_line, tensor.box) == (128, (64, 128))
    batch = Problem(None, None, None, batch=None, types=Types.parse("bf16"))
    three = replace(MAP_A, box=(64, 128, 1)).of(batch.case(8, 16, 24, batch=5))
    assert (three.sizes, three.strides) == ((24, 8, 5), (48, 8 * 48))


def test_a_map_of_matrices_behind_pointers_holds_no_address_but_their_ends() -> None:
    tensor = MAP_ANYWHERE.of(POINTERS.case(100, 200, 72, batch=3))
    assert tensor.sizes == (72, 100, 2**31, 2**14) and tensor.strides == (144, 16, 2**35)
    launch = Launch(160, GRID, maps=(MAP_ANYWHERE,))
    contract = Contract.of(POINTERS, launch)
    assert [one.text for one in contract.parameters[:3]] == ["map_a", "A_array", "B_array"]
    address = 0x7F12_3456_7890 // 16 * 16
    near, far = address // 16 % tensor.sizes[2], address // 16 // tensor.sizes[2]
    assert near * tensor.strides[1] + far * tensor.strides[2] == address and max(near, far) < 2**31
    case, addresses = POINTERS.case(8, 8, 8, batch=2), defaultdict[str, int](lambda: 160)
    first, pointer, *_ = arguments_of(contract, case, addresses, TiledTensor.pack)
    assert first.kind == "s" and first.data[:8] == bytes(8), "no address, for the emulator neither"
    assert pointer.kind == "p" and pointer.data == (160).to_bytes(8, "little")


@given(st.integers(1, 2**24), st.integers(0, 2**20), st.integers(0, 255), st.integers(0, 2**20))
def test_a_bounded_map_leads_to_the_lines_before_its_end(ld: int, depth: int, line: int, begin: int) -> None:
    map_b = TensorMap("B", (64, 64, 1, 1), swizzle=128, bounded=True)
    tensor = map_b.of(BF16.case(8, 8, 8, ldb=8 * ld))
    at, end = BOUND - depth + line, begin + depth
    assert (0 <= at < tensor.sizes[1]) == (line < depth), "lines behind the last one are zeros"
    steps = zip((at, BOUND, end), tensor.strides, strict=True)
    assert sum(place * stride for place, stride in steps) % 2**64 == (begin + line) * 16 * ld
    assert max(at, BOUND, end) < 2**31
    with pytest.raises(
        InvalidInput, match=f"B has {BOUND + 1} lines, and coordinates of a bounded map tell {BOUND} apart"
    ):
        map_b.of(BF16.case(8, 8, BOUND + 1))


def test_only_maps_of_all_memory_say_so_in_json() -> None:
    maps = Launch(160, GRID, maps=(MAP_A, replace(MAP_ANYWHERE, operand="B"))).document["maps"]
    assert "anywhere" not in maps[0] and maps[1]["anywhere"] is True
    assert TensorMap(**json.loads(json.dumps(maps[1])) | {"box": (64, 128, 1, 1)}) == replace(MAP_ANYWHERE, operand="B")


def test_of_an_empty_operand_there_is_a_map_of_one_element() -> None:
    assert MAP_A.of(replace(BF16.case(3, 5, 8), k=0, lda=8)).sizes == (1, 3)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"box": (64,)}, "a box of 1 dimensions"),
        ({"box": (64, 257)}, "257 elements along a dimension of its box are not 1 to 256"),
        ({"swizzle": 16}, "swizzle of 16 bytes; known are 0, 32, 64, 128"),
        ({"promotion": 32}, "promotion of 32 bytes"),
        ({"box": (64, 44), "tail": True}, "no tail of boxes of 44 lines: A and B have, of a multiple of 8"),
        ({"operand": "C", "tail": True}, "C has no tail"),
        ({"bounded": True}, "a box of 2 dimensions, not 4"),
        ({"bounded": True, "box": (64, 128, 1, 1), "anywhere": True}, "bounded by coordinates"),
    ],
)
def test_no_map_can_be_built_that_tma_does_not_take(change: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        replace(MAP_A, **change)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"element_bytes": 3}, "elements of 3 bytes"),
        ({"sizes": (72, 0)}, r"0 elements along a dimension are not 1 to 2\^32"),
        ({"strides": (146,)}, r"146 bytes from a line, or matrix, to the next are no multiple of 16"),
        ({"strides": (2**40,)}, r"1099511627776 bytes .* below 2\^40"),
        ({"strides": ()}, "2 sizes, 0 strides and a box of 2"),
        ({"box": (12, 8), "swizzle": 0}, "24 bytes of a box's line are no multiple of 16"),
        ({"box": (32, 8)}, "a box's line of 64 bytes does not fill a swizzle of 128"),
    ],
)
def test_a_case_that_tma_cannot_move_is_refused_with_its_reason(change: dict[str, object], words: str) -> None:
    tensor = MAP_A.of(BF16.case(100, 200, 72))
    with pytest.raises(InvalidInput, match=f"TMA cannot move A: .*{words}"):
        replace(tensor, **change)  # type: ignore[arg-type]


@given(lines=st.integers(1, 2**20), box=st.integers(1, 32).map(lambda eights: 8 * eights))
def test_a_tail_is_what_whole_boxes_leave_by_eights(lines: int, box: int) -> None:
    tail = tail_lines(lines, box)
    whole = (lines - 1) // box
    assert tail % 8 == 0 and 8 <= tail <= box
    assert 0 <= whole * box + tail - lines < 8
    length = MAP_A.box[0]
    tensor = replace(MAP_A, box=(length, box), tail=True).of(BF16.case(lines, 200, 72))
    assert (tensor.box, tensor.tail, tensor.box_line) == ((length, tail), box, 128)
    said = replace(MAP_A, box=(length, box), tail=True).words.removeprefix("boxes of 64 x ").split(" elements")[0]
    assert eval(said.replace("/", "//"), {"M": lines}) == tail


def test_a_reader_encodes_the_box_of_a_tail() -> None:
    map_b = TensorMap("B", (64, 96), 128, tail=True)
    assert map_b.parameter == "map_b_tail"
    assert map_b.words == "boxes of 64 x ((N - 1) % 96 / 8 * 8 + 8) elements, swizzle of 128 bytes"


def test_pointers_and_batches_need_maps_of_their_own() -> None:
    with pytest.raises(InvalidInput, match="lies where pointers say"):
        MAP_A.of(POINTERS.case(8, 8, 8, batch=2))
    with pytest.raises(InvalidInput, match="A lies where its map begins"):
        MAP_ANYWHERE.of(BF16.case(8, 8, 8))
    with pytest.raises(InvalidInput, match="a box of 2 dimensions, not 4"):
        replace(MAP_A, anywhere=True)
    with pytest.raises(InvalidInput, match="a box of 4 dimensions, not 2 or 3"):
        replace(MAP_ANYWHERE, anywhere=False)
    with pytest.raises(InvalidInput, match="has 3 dimensions, for no batch"):
        replace(MAP_A, box=(64, 64, 1)).of(BF16.case(8, 8, 8))
    with pytest.raises(InvalidInput, match="16 does not divide its address 0x8"):
        MAP_A.of(BF16.case(8, 8, 8)).require_address(8)


def test_maps_come_first_and_take_the_place_of_pointers() -> None:
    launch = Launch(160, GRID, maps=(MAP_A, TensorMap("B", (64, 64))))
    taken = Contract.of(BF16, launch).parameters
    assert [one.name for one in taken][:4] == ["map_a", "map_b", "C", "M"]
    assert taken[0] == Parameter("map_a", MAP_TYPE) and taken[0].is_map and not taken[0].is_pointer
    with pytest.raises(InvalidInput, match="two tensor maps of one name: map_a, map_a"):
        Launch(160, GRID, maps=(MAP_A, MAP_A))
    with pytest.raises(InvalidInput, match="unknown parameter"):
        Parameter("map_d", MAP_TYPE)


def test_a_launch_without_maps_says_nothing_of_them() -> None:
    assert not {"maps", "persistent"} & set(Launch(64, GRID).document)
    stated = json.loads(json.dumps(Launch(64, GRID, maps=(MAP_A,)).document))["maps"]
    assert stated == [{"operand": "A", "box": [64, 128], "swizzle": 128, "promotion": 0, "tf32": False}]


def test_the_emulators_form_fills_the_parameter() -> None:
    tensor: TiledTensor = MAP_A.of(BF16.case(100, 200, 72))
    assert len(tensor.pack(2)) == MAP_BYTES and MAP_BYTES % MAP_ALIGNMENT == 0


# wgmma


def test_a_warpgroup_holds_each_sum_once() -> None:
    for one in (Wgmma(24, DType.BF16, DType.BF16, DType.F32), Wgmma(16, DType.F16, DType.F16, DType.F16)):
        registers, parts = range(one.c_registers), range(one.c_shared)
        places = [one.c_place(*at) for at in product(range(128), registers, parts)]
        assert sorted(places) == list(product(range(64), range(one.n)))


def test_names_and_instructions() -> None:
    bf16 = wgmmas()["wgmma_m64n128k16_bf16"]
    assert bf16.ptx == "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16"
    assert (bf16.immediates, bf16.c_registers, bf16.sums.fraction) == ((1, 1, 0, 0), 64, 25)  # type: ignore[union-attr]
    assert wgmmas()["wgmma_m64n8k16_f16_f16_trans_b"].immediates == (1, 1, 0, 1)
    assert wgmmas()["wgmma_m64n8k16_bf16_rs_trans_b"].immediates == (1, 1, 1)
    s8 = wgmmas()["wgmma_m64n32k32_s8u8"]
    assert (s8.ptx.endswith(".m64n32k32.s32.s8.u8"), s8.immediates, s8.sums) == (True, (), None)
    assert all(one.function == name for name, one in wgmmas().items())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((16, DType.BF16, DType.F16, DType.F32), "no wgmma multiplies bf16 by f16"),
        ((16, DType.BF16, DType.BF16, DType.F16), "wgmma sums bf16 in f32, not f16"),
        ((12, DType.BF16, DType.BF16, DType.F32), "no wgmma has 12 columns of bf16"),
        ((40, DType.S8, DType.S8, DType.S32), "no wgmma has 40 columns of s8"),
        ((16, DType.F32, DType.F32, DType.F32, True), "wgmma takes tf32 K-major alone"),
        ((16, DType.F16, DType.F16, DType.F32, True, False, True), "registers of A are neither K-major nor MN-major"),
    ],
)
def test_what_no_wgmma_does_is_refused(arguments: tuple[object, ...], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Wgmma(*arguments)  # type: ignore[arg-type]


def test_persistent_blocks_share_no_tile() -> None:
    assert Launch(64, GRID, persistent=True).document["persistent"] is True
    with pytest.raises(InvalidInput, match="blocks that share tiles are not persistent"):
        Launch(64, GRID, splits=2, persistent=True)
