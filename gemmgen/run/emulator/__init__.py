"""The CPU emulator: executes the PTX that NVRTC makes of a kernel, with its memory and synchronisation checked.

    ptx.py           a kernel's text -> its PTX
    instructions.py  the matrix instructions of an architecture, as text
    compiler.py      the host's C++ compiler
    program.py       the interpreter itself: the C++ of native/, compiled once for a machine
    arena.py         operands in memory that driver and interpreter share, between guard pages
    server.py        the interpreter as a process that answers launches, and may die doing so
    coverage.py      what ran, in memory that driver and interpreter share; statements.py puts it in words of the text
    launches.py      EmulatedKernel: what a launch runs, watches and may take
    driver.py        EmulatorExecutor, which the rest of gemmgen uses

native/, in the order in which a kernel goes through it:

    main, guard                          messages; what the process may do: compute
    launch, allocations                  a launch; its operands, between guard bands
    lexer, parser, module, types         PTX -> statements
    decoder, program, instruction        statements -> instructions with handlers; registers -> places in a file
    machine, block, warp, lanes          who runs when: clusters, barriers, splits of a warp
    integers, floats, casts, moves       handlers of arithmetic, by *numbers, conversions and approximations
    control, collectives, calls          branches, barriers; shuffles and votes; functions, printf and assert
    memory, atomics, copies              accesses, checked to the byte; cp.async
    matrices, matrix_*, tile_*, products mma, wmma and ldmatrix, to the bit
    mbarriers, tma, warpgroups, hopper   what sm_90 does beside its threads
    watch, *_watch, shared_proxies       data races, and memory that nobody has written, by clocks, plane and cell_scans
    ring, ring_numbers                   ring mode: floating-point numbers are integers
    coverage                             outcomes of conditions, and the operands closest to one that lacks
"""

from gemmgen.run.emulator.driver import EmulatorExecutor

__all__ = ["EmulatorExecutor"]
