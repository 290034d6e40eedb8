"""PTX instructions of mbarriers, TMA and warpgroups: the twins of gemmgen's own device functions do what they do."""

from __future__ import annotations

import re
from collections.abc import Callable

from gemmgen.run.emulator.ptx.arithmetic import WHERE
from gemmgen.run.emulator.ptx.memory import copied
from gemmgen.run.emulator.ptx.operands import Instruction, joined

LOAD = re.compile(
    r"cp\.async\.bulk\.tensor\.([23])d\.shared::(?:cta|cluster)\.global(?:\.tile)?\.mbarrier::complete_tx::bytes"
)
STORE = re.compile(r"cp\.async\.bulk\.tensor\.([23])d\.global\.shared::cta(?:\.tile)?\.bulk_group")
SPACES = r"(?:\.(?:release|acquire|relaxed)\.cta)?(?:\.shared(?:::cta)?)?\.b64"


def mbarrier(one: Instruction) -> str:
    """mbarrier.init, arrive, arrive.expect_tx and try_wait.parity, of the block's own."""
    if re.fullmatch(rf"mbarrier\.init{SPACES}", one.name):
        one.count(2)
        return f"::mbarrier_init({_barrier(one, one.operands[0])}, int({_word(one, one.operands[1])}));"
    if re.fullmatch(rf"mbarrier\.arrive(?:\.expect_tx)?{SPACES}", one.name):
        one.require(one.operands[0] == "_", "a state")
        one.count(3 if "expect_tx" in one.parts else 2)
        barrier = _barrier(one, one.operands[1])
        if "expect_tx" in one.parts:
            return f"::mbarrier_arrive_expect_tx({barrier}, int({_word(one, one.operands[2])}));"
        return f"::mbarrier_arrive({barrier});"
    one.require(re.fullmatch(rf"mbarrier\.try_wait\.parity{SPACES}", one.name) is not None, "a part")
    one.count(3, 4)
    waits = f"::mbarrier_wait({_barrier(one, one.operands[1])}, {_word(one, one.operands[2])});"
    return f"{waits} {one.register(one.operands[0])} = true;"


def elected(one: Instruction) -> str:
    one.require(one.name == "elect.sync" and one.operands[1] in ("0xffffffff", "-1"), "a mask")
    lane, _, predicate = one.operands[0].partition("|")
    one.require(lane.strip() == "_", "a lane")
    return f"{one.register(predicate.strip())} = ::elect_one();"


def bulk(one: Instruction) -> str:
    """TMA's copies of boxes and groups of its stores; other copies are threads' own."""
    load, store = LOAD.fullmatch(one.name), STORE.fullmatch(one.name)
    if load is not None:
        one.count(3)
        tensor, coordinates = _box(one, one.operands[1], int(load[1]))
        places = joined([_shared(one, one.operands[0]), tensor, _barrier(one, one.operands[2])])
        return f"::tma_load_{load[1]}d({places}, {coordinates});"
    if store is not None:
        one.count(2)
        tensor, coordinates = _box(one, one.operands[0], int(store[1]))
        return f"::tma_store_{store[1]}d({tensor}, {_shared(one, one.operands[1])}, {coordinates});"
    if one.name == "cp.async.bulk.commit_group":
        return "::tma_store_commit();"
    if one.name in ("cp.async.bulk.wait_group", "cp.async.bulk.wait_group.read"):
        one.count(1)
        read = str("read" in one.parts).lower()
        return f"::gemmgen::tma_store_wait(unsigned({one.value(one.operands[0])}.value), {read}, __LINE__);"
    return copied(one)


def warpgroup(one: Instruction) -> str:
    """What orders products of warpgroups; the products themselves are not known here."""
    if one.name == "wgmma.fence.sync.aligned":
        return "::gemmgen::wgmma_fence();"
    if one.name == "wgmma.commit_group.sync.aligned":
        return "::gemmgen::wgmma_commit();"
    one.require(one.name == "wgmma.wait_group.sync.aligned", "a product")
    one.count(1)
    return f"::gemmgen::wgmma_wait(unsigned({one.value(one.operands[0])}.value), __LINE__);"


def _word(one: Instruction, text: str) -> str:
    return f"{WHERE}as<uint32_t>({one.value(text)})"


def _shared(one: Instruction, text: str) -> str:
    base, offset = one.address(text)
    return f"{WHERE}at<'s'>({base}, {offset}, 1, __LINE__)"


def _barrier(one: Instruction, text: str) -> str:
    return f"static_cast<unsigned long long*>({_shared(one, text)})"


def _box(one: Instruction, text: str, dimensions: int) -> tuple[str, str]:
    """The tensor map, and the coordinates, of `[map, {x, y}]`."""
    found = re.fullmatch(r"\[\s*([^\s,]+)\s*,\s*(\{[^}]*\})\s*\]", text)
    one.require(found is not None, f"the tensor {text!r}")
    assert found is not None
    coordinates = one.vector(found[2])
    one.require(len(coordinates) == dimensions, f"{len(coordinates)} coordinates")
    tensor = f"reinterpret_cast<const void*>({WHERE}as<uint64_t>({one.value(found[1])}))"
    return tensor, joined([f"int({_word(one, text)})" for text in coordinates])


TABLE: dict[str, Callable[[Instruction], str]] = {
    "mbarrier": mbarrier,
    "elect": elected,
    "cp": bulk,
    "wgmma": warpgroup,
}
