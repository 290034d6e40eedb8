"""Confines the current process for good: files by Landlock; programs, processes and connections by seccomp.

The interpreter does the same in C++ (run/emulator/native/guard.cpp) and reports which guards a system lacks.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

# Landlock (linux/landlock.h): system call numbers, which are the same on all machines, and access rights, one bit each.
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
BENEATH = 1  # LANDLOCK_RULE_PATH_BENEATH
READ_FILE, READ_FOLDER = 1 << 2, 1 << 3
RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}  # number of file rights by Landlock version; 16 from version 5 on
CONNECTIONS = 3  # the rights to bind and to connect TCP sockets
OUTSIDE = 3  # scopes: abstract sockets of, and signals to, processes outside

SET_SECCOMP, FILTER, NO_NEW_PRIVS = 22, 2, 38  # arguments of prctl
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # BPF instructions
NUMBER, MACHINE, ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data
ALLOWED, KILLED = 0x7FFF0000, 0x80000000
MISSING = 0x00050000 | errno.ENOSYS  # as if the system had no such call: libraries have a fallback
CLONE_THREAD = 0x10000

# Per machine: AUDIT_ARCH, and the first call number of another ABI (x32).
MACHINES = {"x86_64": (0xC000003E, 0x40000000), "aarch64": (0xC00000B7, 0xFFFFFFFF)}
# Allowed calls (to read, allocate, wait and exit), with their numbers on each of MACHINES.
CALLS = """
read 0 63, write 1 64, open 2 -, close 3 57, stat 4 -, fstat 5 80, lstat 6 -, poll 7 -, lseek 8 62, mmap 9 222,
mprotect 10 226, munmap 11 215, brk 12 214, rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139,
pread64 17 67, readv 19 65, writev 20 66, access 21 -, select 23 -, sched_yield 24 124, mremap 25 216, madvise 28 233,
dup 32 23, dup2 33 -, dup3 292 24, nanosleep 35 101, getpid 39 172, exit 60 93, uname 63 160, fcntl 72 25,
getcwd 79 17, readlink 89 -, gettimeofday 96 169, getrlimit 97 163, getrusage 98 165, sysinfo 99 179, getuid 102 174,
getgid 104 176, geteuid 107 175, getegid 108 177, sigaltstack 131 132, gettid 186 178, time 201 -, futex 202 98,
sched_getaffinity 204 123, getdents64 217 61, set_tid_address 218 96, restart_syscall 219 128, clock_gettime 228 113,
clock_getres 229 114, clock_nanosleep 230 115, exit_group 231 94, openat 257 56, newfstatat 262 79, readlinkat 267 78,
faccessat 269 48, pselect6 270 72, ppoll 271 73, set_robust_list 273 99, getrandom 318 278, membarrier 324 283,
statx 332 291, rseq 334 293, faccessat2 439 439
"""
THREADS, SIGNALS, LIMITS = "clone 56 220", "tgkill 234 131", "prlimit64 302 261"  # allowed for some arguments


def confine(readable: Iterable[Path], most_file_bytes: int = 0) -> None:
    """Confine this process: it can read files below `readable` and start threads, but no processes.

    Open files stay open; they can grow to at most `most_file_bytes`. Call this before the first thread starts. Without
    Landlock or seccomp, less is confined; outside Linux, nothing.
    """
    if sys.platform != "linux":
        return
    for kind, most in ((resource.RLIMIT_FSIZE, most_file_bytes), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(kind, (most, most))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(NO_NEW_PRIVS, 1, 0, 0, 0)
    with suppress(OSError):
        _lock_files(libc, readable)
    _filter_calls(libc)


def _lock_files(libc: ctypes.CDLL, readable: Iterable[Path]) -> None:
    """Allow only reads below `readable`. Raises OSError if the system has no Landlock."""
    version = _checked(libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), 1))
    handled = struct.pack("<QQQ", (1 << RIGHTS.get(version, 16)) - 1, CONNECTIONS, OUTSIDE)
    known = 24 if version >= 6 else 16 if version >= 4 else 8
    rules = _checked(libc.syscall(CREATE_RULESET, handled, ctypes.c_size_t(known), 0))
    try:
        for path in readable:
            folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
            try:
                _checked(libc.syscall(ADD_RULE, rules, BENEATH, struct.pack("<Qi", READ_FILE | READ_FOLDER, folder), 0))
            finally:
                os.close(folder)
        _checked(libc.syscall(RESTRICT_SELF, rules, 0))
    finally:
        os.close(rules)


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def _filter_calls(libc: ctypes.CDLL) -> None:
    """Install the seccomp filter, if this machine is one of MACHINES."""
    if platform.machine() not in MACHINES:
        return
    machine, foreign = MACHINES[platform.machine()]
    program = [_step(LOAD, MACHINE), _step(EQUAL, machine, skip_if=1), _step(RETURN, KILLED)]
    program += [_step(LOAD, NUMBER), _step(AT_LEAST, foreign, skip_unless=1), _step(RETURN, KILLED)]
    for call in filter(None, map(_number, CALLS.split(","))):
        program += [_step(EQUAL, call[0], skip_unless=1), _step(RETURN, ALLOWED)]
    for entry, test, value in ((THREADS, ANY_BIT, CLONE_THREAD), (SIGNALS, EQUAL, os.getpid()), (LIMITS, EQUAL, 0)):
        program += [_step(EQUAL, *_number(entry), skip_unless=4), _step(LOAD, ARGUMENT)]
        program += [_step(test, value, skip_unless=1), _step(RETURN, ALLOWED), _step(RETURN, MISSING)]
    program.append(_step(RETURN, MISSING))
    steps = ctypes.create_string_buffer(b"".join(program))
    libc.prctl(SET_SECCOMP, FILTER, struct.pack("@HP", len(program), ctypes.addressof(steps)), 0, 0)


def _number(entry: str) -> tuple[int, ...]:
    """The number of a call on this machine, from an entry of CALLS; empty if the machine has no such call."""
    _, *numbers = entry.split()
    number = dict(zip(MACHINES, numbers, strict=True))[platform.machine()]
    return () if number == "-" else (int(number),)


def _step(code: int, value: int, *, skip_if: int = 0, skip_unless: int = 0) -> bytes:
    """A BPF instruction (struct sock_filter). A comparison skips the given number of instructions after it."""
    return struct.pack("<HBBI", code, skip_if, skip_unless, value)
