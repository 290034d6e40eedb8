"""The interpreter of PTX: runs what NVRTC makes of a kernel's text on the host.

    ptx.py           a kernel's text -> the PTX that NVRTC makes of it
    instructions.py  how an architecture's tensor-core instructions compute, as text
    program.py       the interpreter's own program, compiled once for a machine
    server.py        that program as a process that answers launches, and may die doing so
    coverage.py      what ran of the text, counted in memory that the process shares
    statements.py    which comparison of the text a setp stands for, in words
    kernel.py        InterpreterExecutor, which takes the place of EmulatorExecutor

The program's sources are C++: native/.
"""
