"""A model of a kernel before it runs: resources, occupancy, roofline, waves, and a predicted time.

The time ranks candidates and explains them. It is a prediction: nothing presents it as a measurement.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from gemmgen.kernel.cost import SCHEDULERS, sharp_maximum, sustained
from gemmgen.kernel.plan import Bound, Plan, Share
from gemmgen.kernel.prepare import Pack
from gemmgen.problem.device import MAX_REGISTERS, REGISTER_UNIT, REGISTERS_PER_SM, WARP, Arch, DeviceSpec
from gemmgen.problem.gemm import Case, Problem

Limiter = Literal["threads", "blocks", "registers", "shared memory"]

MODEL_ERROR = 0.2  # relative: of the 594 times of its calibration 582 were predicted within it, of 585 others 572
LAUNCH_US = 3.0  # from the first block's start to the last one's end when there is no work
PREPARE_US = 0.5  # of a launch before: starts overlap. 700^3 of f16, with two copies, took 6.6 us (H100, 2026-11-27)
CLUSTER_LOSS = 0.02  # share of its time that a kernel loses because blocks of a cluster wait for each other
REPRESENTATIVE_BYTES = 2**28
REPRESENTATIVE_SIZE = 4096  # what a run-time size is taken for when a prediction needs a number


@dataclass(frozen=True)
class Occupancy:
    """Blocks and warps that fit on one SM, the `share` of its threads that they use (0 to 1), and what limits them."""

    blocks: int
    warps: int
    share: float
    limiter: Limiter


@dataclass(frozen=True)
class Prediction:
    """The model's prediction for one config on one card.

    registers     registers per thread, estimated (before compilation) or as compiled
    shared_bytes  shared memory per block
    waves         blocks of the grid over blocks that run at once; of a persistent kernel, which has as many blocks as
                  run at once, tiles over blocks
    time_us       predicted time of one launch, in microseconds; infinite where the kernel cannot launch
    bound         the resource that takes longest
    """

    device: str
    registers: int
    shared_bytes: int
    occupancy: Occupancy
    waves: float
    time_us: float
    bound: Bound

    def tflops(self, case: Case) -> float:
        """The predicted rate in TFLOPS."""
        return case.flops / self.time_us / 1e6 if self.time_us > 0 else 0.0


def occupancy(arch: Arch, threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """Return how many blocks of `threads` threads fit on an SM of `arch`, given registers per thread and shared
    bytes."""
    shared = shared_bytes + arch.reserved_shared
    warps = -(-threads // WARP)
    rounded = -(-max(registers, 1) // REGISTER_UNIT) * REGISTER_UNIT
    # Each scheduler has its share of the SM's registers and runs whole warps.
    warps_by_registers = SCHEDULERS * (REGISTERS_PER_SM // SCHEDULERS // (rounded * WARP))
    fits: dict[Limiter, int] = {
        "threads": arch.sm_threads // (warps * WARP),
        "blocks": arch.sm_blocks,
        "registers": warps_by_registers // warps,
        "shared memory": arch.sm_shared // shared if shared else arch.sm_blocks,
    }
    limiter = min(fits, key=lambda name: fits[name])
    blocks = fits[limiter]
    return Occupancy(blocks, blocks * warps, blocks * warps * WARP / arch.sm_threads, limiter)


def predict(plan: Plan, device: DeviceSpec, registers: int | None = None) -> Prediction:
    """Predict one launch of `plan` (run-time sizes as in `representative`) on `device`.

    `registers` is the compiled kernel's figure; None estimates it.
    """
    case, launch = representative(plan.problem), plan.launch
    used = plan.work.registers if registers is None else registers
    # __launch_bounds__ keeps the compiler to what lets a block launch: it spills the others.
    most = MAX_REGISTERS if registers is not None else min(MAX_REGISTERS, registers_to_launch(launch.threads))
    fit = occupancy(device.arch, launch.threads, min(used, most), plan.shared_bytes)
    if fit.blocks == 0:
        return Prediction(device.name, used, plan.shared_bytes, fit, math.inf, math.inf, "latency")
    blocks = launch.typical_blocks(case)
    reached = device.clustered_sms(launch.cluster)
    at_once = launch.resident(blocks, device.sms) if launch.persistent else fit.blocks * reached
    time, bound = _time_us(plan, case, device, fit.blocks, max(0, used - most))
    return Prediction(device.name, used, plan.shared_bytes, fit, blocks / at_once, time, bound)


def least_us(plan: Plan, device: DeviceSpec) -> float:
    """What products alone take at the rate of the instructions that multiply in `plan`: no tile is faster."""
    pairs = plan.problem.types.compute.pairs
    macs = plan.lanes(device) * plan.work.products / pairs * sustained(plan)  # of an SM, a cycle
    return representative(plan.problem).flops / 2 / macs / device.sms / device.clock_ghz / 1000


def registers_to_launch(threads: int) -> int:
    """The most registers per thread with which an SM has room for one block of `threads`."""
    warps = -(-threads // (WARP * SCHEDULERS))  # of a scheduler, which has its share of the registers
    return REGISTERS_PER_SM // SCHEDULERS // (warps * WARP) // REGISTER_UNIT * REGISTER_UNIT


@lru_cache(maxsize=512)  # a search predicts for the same problems again and again
def representative(problem: Problem) -> Case:
    """The case that stands for `problem`: its fixed sizes, and the typical size of each run-time one.

    Without a typical size it is REPRESENTATIVE_SIZE; a batch has as many products as fill REPRESENTATIVE_BYTES.
    """
    typical = {name.lower(): size for name, size in dict(problem.typical).items()}
    open_sizes = {name.lower(): REPRESENTATIVE_SIZE for name in ("M", "N", "K") if problem.sizes[name] is None}
    open_sizes |= typical
    if problem.batch is None and "batch" not in typical:
        one = problem.case(**open_sizes, batch=1)
        open_sizes["batch"] = max(1, REPRESENTATIVE_BYTES // one.bytes_moved)
    return problem.case(**open_sizes)


def _time_us(plan: Plan, case: Case, device: DeviceSpec, fit: int, spilled: int) -> tuple[float, Bound]:
    """(time in microseconds, what bounds it): the busiest SM's steps, where `fit` blocks have room."""
    launch = plan.launch
    blocks = launch.blocks_per_tile * launch.typical_tiles(case)
    # Stream-K spreads the last wave evenly; without it the busiest SM has one block more than others.
    per_sm = blocks / device.sms if launch.stream else -(-blocks // device.clustered_sms(launch.cluster))
    resident = 1 if launch.persistent else min(fit, math.ceil(per_sm))
    cost = plan.cost(Share(case, device, blocks, resident, spilled))
    rounds = per_sm / resident
    cycles = rounds * cost.steps * cost.step + (rounds - 1) * cost.between
    compute_us = cycles / device.clock_ghz / 1000
    slowest = max(cost.units, key=lambda unit: cost.units[unit])
    bound: Bound = "DRAM" if cost.memory_us > compute_us else slowest
    both_us = sharp_maximum((compute_us, cost.memory_us)) * (1 + CLUSTER_LOSS * (launch.cluster > 1))
    return _prepare_us(case, plan, device) + both_us + cost.reduction_us + LAUNCH_US, bound


def _prepare_us(case: Case, plan: Plan, device: DeviceSpec) -> float:
    """Microseconds of the launches before the kernel: each reads an operand and writes its copy, or its sums. Codes are
    packed once, before many launches."""
    each = (one for one in plan.launch.prepares if not isinstance(one, Pack))
    moved = (case.tensors[one.operand].least_bytes + one.bytes(case) for one in each)
    return sum(PREPARE_US + size / device.bandwidth / 1000 for size in moved)
