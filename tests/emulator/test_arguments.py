"""What a launch passes: scalars of any size, structs by value, and as many as CUDA takes."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from gemmgen.kernel.contract import Contract, Parameter
from gemmgen.kernel.launch import Launch
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.gemm import Problem
from gemmgen.run.arguments import Argument
from gemmgen.run.emulator.arena import ArenaLayout, SharedArena
from gemmgen.run.emulator.compiler import HostCompiler
from gemmgen.run.emulator.program import interpreter
from gemmgen.run.emulator.ptx import PtxCompilers
from gemmgen.run.emulator.server import Program, Request, Server
from gemmgen.run.executor import Operands
from gemmgen.support.errors import CandidateFailed, InvalidInput
from gemmgen.support.files import Store

PROBLEM = Problem(1, 8, 1)
MAP = """struct alignas(64) Map { unsigned long long opaque[16]; };
struct Three { unsigned char at[3]; };
"""


def launch(parameters: str, body: str, arguments: list[Argument], store: Store) -> list[float]:
    """C, of 8 elements, after a launch of one thread; C is the first argument."""
    text = f'{MAP}extern "C" __global__ void k(float* C, {parameters}) {{ {body} }}\n'
    source = KernelSource("k", text, "test", {}, Contract(PROBLEM, Launch(1, ()), (Parameter("C", "float*"),)))
    case = PROBLEM.case(1, 8, 1)
    layout = ArenaLayout.of(case, source.launch.workspace(case), 1, 0)
    operands = Operands(*(np.zeros(matrix.elements, np.float32) for matrix in case.matrices))
    arena, compilers = SharedArena(), PtxCompilers()
    arena.fill(layout, case, operands, np.zeros(1, np.int64))
    server = Server(Program("k", compilers.ptx(source, store), ""), interpreter(HostCompiler.find(), store), arena.file)
    number = [placed.name for placed in layout.placements].index("C")
    passed = (Argument.pointer(number), *arguments)
    ones = dict.fromkeys(("grid", "threads", "cluster", "workers", "block_count"), 1)
    request = Request(
        layout,
        "k",
        seed=0,
        shared_bytes=0,
        timeout=10.0,
        arguments=passed,
        quiet=False,
        dependent=False,
        watch=True,
        placements=layout.placements,
        **ones,
    )
    try:
        server.launch(request)
        return list(arena.result(layout, case, "C", operands.c))
    finally:
        server.close()
        compilers.close()
        arena.close()


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
        ([Argument.scalar("int", 1)], 'takes parameters of "8 128" bytes and is launched with "8 4"'),
        ([Argument("s", bytes(64), 64)], '"8 128" bytes and is launched with "8 64"'),
        ([], '"8 128" bytes and is launched with "8"'),
        ([Argument("s", bytes(128), 8)], "the kernel aligns parameter 1 to 64 bytes, the launch to 8"),
    ],
)
def test_a_kernel_is_launched_with_what_it_takes(arguments: list[Argument], reason: str, shared_store: Store) -> None:
    with pytest.raises(CandidateFailed, match="launch") as caught:
        launch("Map map", "C[0] = 1;", arguments, shared_store)
    assert caught.value.failure.kind == "launch" and reason in caught.value.failure.reason


def test_arguments_are_of_known_kinds() -> None:
    with pytest.raises(InvalidInput, match="unknown kind 'x'"):
        Argument("x", bytes(4), 4)
    with pytest.raises(InvalidInput, match="6 bytes are no multiple of 4"):
        Argument("s", bytes(6), 4)
