"""Functions that examples share: one loads kernels, one records a CUDA graph, and two time several graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import torch

import gemmgen
from gemmgen.run.compile import compile_many
from gemmgen.support.files import Store

Run = Callable[[], Any]


def loaded(sources: Sequence[gemmgen.KernelSource], device: str) -> list[Any]:
    """Loaded kernels: on a GPU all cores compile them first."""
    if device == "cpu":
        return [gemmgen.load(source, device="emulator") for source in sources]
    major, minor = torch.cuda.get_device_capability()
    compile_many(sources, f"sm_{major}{minor}", Store())  # which keeps them for `load`
    return [gemmgen.load(source, device="gpu") for source in sources]


def recorded(run: Run) -> Any:
    """`run` as a CUDA graph, which uses the memory that `run` holds: keep it as long."""
    torch.cuda.synchronize()  # the other stream reads what was enqueued here
    with torch.cuda.stream(torch.cuda.Stream()):
        for _ in range(3):
            run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph


def times(graphs: Sequence[Any], rounds: int) -> list[list[float]]:
    """Microseconds of a replay of each graph, round by round."""
    found: list[list[float]] = [[] for _ in graphs]
    for number in range(rounds + 1):
        for graph, of_graph in zip(graphs, found, strict=True):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            if number:  # the first round warms up
                of_graph.append(1e3 * start.elapsed_time(end))
    return found


def fastest(graphs: Sequence[Any]) -> int:
    """The index of the graph with the shortest median time over a few rounds."""
    return min(range(len(graphs)), key=lambda one: median(times([graphs[one]], 5)[0]))
