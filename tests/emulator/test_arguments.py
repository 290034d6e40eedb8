"""What a launch passes: scalars of any size, structs by value, and as many as CUDA takes."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from gemmgen.kernel.source import KernelSource, Launch, Parameter
from gemmgen.problem.gemm import Problem
from gemmgen.run.emulator.arena import ArenaLayout, SharedArena
from gemmgen.run.emulator.compiler import HostCompiler
from gemmgen.run.emulator.counters import Counters
from gemmgen.run.emulator.launches import MAX_ARGUMENT_BYTES
from gemmgen.run.emulator.server import Argument, Request, Server
from gemmgen.run.executor import Operands
from gemmgen.support.errors import CandidateFailed, InvalidInput
from gemmgen.support.files import Store

PROBLEM = Problem(1, 8, 1)
MAP = """struct alignas(64) Map { unsigned long long opaque[16]; };
struct Three { unsigned char at[3]; };
"""


def launch(parameters: str, body: str, arguments: list[Argument], shared_store: Store) -> list[float]:
    """C, of 8 elements, after a launch of one thread; C is the first argument."""
    text = f'{MAP}extern "C" __global__ void k(float* C, {parameters}) {{ {body} }}\n'
    source = KernelSource("k", text, PROBLEM, "test", {}, Launch(1, ()), (Parameter("C", "float*"),))
    case = PROBLEM.case(1, 8, 1)
    layout = ArenaLayout.of(case, source.launch.workspace(case), 1, 0)
    operands = Operands(*(np.zeros(matrix.elements, np.float32) for matrix in case.matrices))
    arena = SharedArena()
    arena.fill(layout, case, operands, np.zeros(1, np.int64))
    executables = HostCompiler.find().executables(source, shared_store)
    counters = Counters(executables.sites, text="", never=())
    server = Server(source, executables.watched, arena.file, counters.file, executables.confinement)
    number = [placed.name for placed in layout.placements].index("C")
    passed = (Argument.pointer(number), *arguments)
    try:
        server.launch(Request(layout, 0, 1, 1, 0, 1, 1, 10.0, passed, False, False, layout.placements, 1))
        return list(arena.result(layout, case, "C", operands.c))
    finally:
        server.close()
        arena.close()
        counters.close()


def test_scalars_of_1_2_4_and_8_bytes(shared_store: Store) -> None:
    parameters = "signed char a, double b, unsigned short c, unsigned char d, long long e, float f, unsigned g"
    body = "C[0] = a; C[1] = b; C[2] = c; C[3] = d; C[4] = e; C[5] = f; C[6] = g;"
    values = {
        "signed char": -3,
        "double": 0.5,
        "unsigned short": 60000,
        "unsigned char": 200,
        "long long": -(2**40),
        "float": 0.25,
        "unsigned": 2**31,
    }
    arguments = [Argument.scalar(ctype, value) for ctype, value in values.items()]
    assert launch(parameters, body, arguments, shared_store)[:7] == list(values.values())


def test_structs_by_value_keep_their_alignment(shared_store: Store) -> None:
    values = struct.pack("<16Q", *range(100, 116))
    arguments = [
        Argument.scalar("int", 7),
        Argument("s", values, 64),
        Argument("s", bytes([1, 2, 3]), 1),
        Argument.scalar("double", 9.0),
    ]
    body = """C[0] = before; C[1] = map.opaque[0]; C[2] = map.opaque[15]; C[3] = three.at[2]; C[4] = after;
        C[5] = reinterpret_cast<unsigned long long>(&map) % 64;"""
    parameters = "int before, const __grid_constant__ Map map, Three three, double after"
    assert launch(parameters, body, arguments, shared_store)[:6] == [7, 100, 115, 3, 9, 0]


def test_many_arguments(shared_store: Store) -> None:
    count = 100
    parameters = ", ".join(f"int p{number}" for number in range(count))
    body = f"C[0] = {' + '.join(f'p{number}' for number in range(count))};"
    arguments = [Argument.scalar("int", number) for number in range(count)]
    assert launch(parameters, body, arguments, shared_store)[0] == sum(range(count))


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([Argument.scalar("int", 1)], 'takes the parameters "p8 s128" and is launched with "p8 i4"'),
        ([Argument("s", bytes(64), 64)], '"p8 s128" and is launched with "p8 s64"'),
        ([Argument("s", bytes(128), 8)], "the kernel aligns parameter 1 to 64 bytes, the launch to 8"),
    ],
)
def test_a_kernel_is_launched_with_what_it_takes(arguments: list[Argument], reason: str, shared_store: Store) -> None:
    with pytest.raises(CandidateFailed, match=r"launch|aligns") as caught:
        launch("Map map", "C[0] = 1;", arguments, shared_store)
    assert caught.value.failure.kind == "launch" and reason in caught.value.failure.reason


def test_arguments_are_of_known_kinds() -> None:
    with pytest.raises(InvalidInput, match="unknown kind 'x'"):
        Argument("x", bytes(4), 4)
    with pytest.raises(InvalidInput, match="6 bytes are no multiple of 4"):
        Argument("s", bytes(6), 4)


def test_both_sides_allow_as_many_bytes() -> None:
    header = Path(__file__).parents[2] / "templates" / "device" / "host" / "launch.hpp"
    assert f"MAX_ARGUMENT_BYTES = {MAX_ARGUMENT_BYTES};" in header.read_text()
