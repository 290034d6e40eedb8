"""The CPU emulator: runs a rendered `.cu` on the host, with its loops, indices and synchronisation as they are.

    tokens.py      a kernel's text, word by word
    conditions.py  its conditions and blocks, and the text with probes at them
    probes.py      calls that note what runs
    compiler.py    the host's C++ compiler; a kernel's text -> an executable
    confine.py     what keeps the compiler and the executable to their own files
    arena.py       operands in memory that driver and executable share, between guard pages
    counters.py    what probes noted, in memory that driver and executable share
    server.py      the executable as a process that answers launches, and may die doing so
    launches.py    what a launch runs, watches and may take: also that of gemmgen/run/interpreter
    driver.py      EmulatorExecutor, which the rest of gemmgen uses

The executable's own side is C++: templates/device/host.
"""

from gemmgen.run.emulator.driver import EmulatorExecutor

__all__ = ["EmulatorExecutor"]
