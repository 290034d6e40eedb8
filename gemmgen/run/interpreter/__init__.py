"""An emulator that executes the PTX which NVRTC makes of a kernel. No command uses it yet: see gemmgen/run/emulator.

    ptx.py           a kernel's text -> its PTX
    instructions.py  the matrix instructions of an architecture, as text
    program.py       the interpreter itself: the C++ of native/, compiled once for a machine
    server.py        the interpreter as a process that answers launches
    coverage.py      what ran, in memory that driver and interpreter share; statements.py puts it in words of the text
    kernel.py        InterpretedKernel, InterpreterExecutor

native/, in the order in which a kernel goes through it:

    main, launch, allocations            messages; a launch; its operands, between guard bands
    lexer, parser, module, types         PTX -> statements
    decoder, program, instruction        statements -> instructions with handlers; registers -> places in a file
    machine, block, warp, lanes          who runs when: clusters, barriers, splits of a warp
    integers, floats, casts, moves       handlers of arithmetic, by *numbers, conversions and approximations
    control, collectives, calls          branches, barriers; shuffles and votes; functions, printf and assert
    memory, atomics, copies              accesses, checked to the byte; cp.async
    matrices, matrix_*, tile_*, products mma, wmma and ldmatrix, to the bit
    mbarriers, tma, warpgroups, hopper   what sm_90 does beside its threads
    watch, *_watch, shared_proxies       data races, and memory that nobody has written, by clocks, plane and cell_scans
    coverage                             outcomes of conditions, and the operands closest to one that lacks
"""
