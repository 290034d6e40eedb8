"""Names that are not possible in a folder of C and CMake files."""

from __future__ import annotations

_HEADERS = (  # of C and CUDA, which a NAME.h would hide from what looks for them in its folder
    "assert complex ctype errno fenv features float inttypes iso646 limits locale math memory setjmp signal stdalign",
    "stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string strings tgmath threads time uchar unistd",
    "wchar wctype cuda crt cublas cublasLt device_types driver_types host_config host_defines library_types",
    "surface_types texture_types vector_functions vector_types builtin_types channel_descriptor common_functions",
    "cooperative_groups device_functions device_launch_parameters driver_functions math_constants math_functions nvvm",
    "aio dirent dlfcn fcntl getopt glob link poll pthread regex sched semaphore spawn syslog termios",
)
HEADERS = frozenset(" ".join(_HEADERS).split())
TARGETS = frozenset(("all", "clean", "help", "install", "package", "package_source", "test"))  # of CMake itself


def taken_by(name: str) -> str | None:
    """The conflict of a header NAME.h, or of a CMake target NAME; None if there is none."""
    if name in HEADERS or name.startswith("cuda_"):
        return f"{name}.h would hide a header of C's or CUDA's"
    return "CMake has a target of its own by this name" if name in TARGETS else None
