"""Uses of kernels: exported folders, libraries, and functions of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gemmgen.api.asked import Kernel, count_of, kernel_file, shown
from gemmgen.exports.exporting import Exported, Wish, export_verified
from gemmgen.exports.writing import Folder
from gemmgen.run.card import compile_target
from gemmgen.run.target import DeviceChoice
from gemmgen.search.trial import Progress
from gemmgen.support.child import Child
from gemmgen.support.errors import require, whole
from gemmgen.support.files import Store

if TYPE_CHECKING:  # the functions that need them import these rooms themselves
    from gemmgen.arrays.kernel import ArrayKernel
    from gemmgen.arrays.library import ArrayLibrary
    from gemmgen.exports.library.building import Library
    from gemmgen.exports.library.regret import ProductRegret
    from gemmgen.exports.library.spec import Spec


def export(
    kernel: Kernel,
    *,
    to: Folder,
    device: DeviceChoice = "auto",
    arch: str = "auto",
    examples: int | None = None,
    seed: int = 0,
    name: str | None = None,
    torch: bool = False,
    command: str = "gemmgen.export(...)",
    progress: Progress | None = None,
) -> Exported:
    """Verify `kernel`, and write it to the folder `to`: kernel, launcher, header, self-test, build file, certificate.

    Other exported kernels in `to` stay, and are part of its build file.

    device    the device that verifies it, as for `tune`
    arch      the architecture to compile for; "auto" is the one that the kernel's JSON names, else the GPU's, else
              sm_90
    examples  situations to verify it in (None: 100, or 20 for large problems; 0: none, and the certificate says so)
    seed      seed of all draws
    name      the name of kernel, files and launcher, a C identifier (None: the kernel's own name)
    torch     whether to write torch operators, too: NAME_torch.cpp, for torch.utils.cpp_extension or CMake with
              LibTorch
    command   the command that the certificate records

    A kernel that is wrong is not written: `files` is empty, and `verdict` says how it is wrong. Raises InvalidInput (no
    such kernel; `to` holds other files of these names; `torch` for a kernel that takes arrays of pointers),
    CandidateFailed (it does not compile; the device is not available) or GemmgenError (`to` cannot be written).
    """
    if name is not None:
        kernel = kernel_file(kernel, compile_target(arch)[1]).alone.renamed(name)
    (exported,) = export_all(
        kernel,
        to=to,
        device=device,
        arch=arch,
        examples=examples,
        seed=seed,
        torch=torch,
        command=command,
        progress=progress,
    )
    return exported


def export_all(
    *kernels: Kernel,
    to: Folder,
    device: DeviceChoice = "auto",
    arch: str = "auto",
    examples: int | None = None,
    seed: int = 0,
    torch: bool = False,
    command: str = "gemmgen.export_all(...)",
    progress: Progress | None = None,
) -> tuple[Exported, ...]:
    """Export several kernels into one folder with one build file. The first wrong kernel ends it, and nothing is
    written.

    Also raises InvalidInput for kernels with the same name: `KernelFile.renamed` gives another.
    """
    examples = count_of("examples", examples, 0)
    _, spec = compile_target(arch)
    seed = whole("seed", seed, least=0)
    found = [kernel_file(one, spec).alone for one in kernels]
    with shown(progress) as heard:
        return export_verified(found, Path(to), Wish(device, arch, examples, seed, command, heard, torch))


def library(
    spec: Spec | Folder,
    *,
    to: Folder,
    device: DeviceChoice = "auto",
    arch: str = "auto",
    budget: int | None = None,
    examples: int | None = None,
    seed: int = 0,
    points: int | None = None,
    fallback: Literal["cublaslt"] | None = None,
    command: str = "gemmgen.library(...)",
    progress: Progress | None = None,
    lanes: Sequence[Child] = (),
) -> Library:
    """Write a library of kernels with one dispatcher to the folder `to`: see gemmgen.exports.library.spec.

    spec      a SPEC.toml, or its contents as a Spec
    device    the device that verifies and times kernels, as for `tune`; for architectures other than the GPU's, kernels
              are verified in the emulator and their times are predicted
    arch      the architecture to compile for if the spec names none; "auto" is the GPU's, else sm_90
    budget    candidates per search; in a search for many sizes, candidates per size in its first round (None: 24 and 6;
              without a GPU 1, or 2 if that one fails)
    examples  situations to verify each kernel in (None: as for `export`; in the emulator a sixth of that, with 3 runs
              of one launch)
    seed      seed of all draws
    points    most sizes at which a product's kernels are timed (None: 224 measured, 256 predicted)
    fallback  "cublaslt" lets cuBLASLt serve sizes at which it was measured to be faster than all kernels, in products
              with the linear epilogue; the library then needs cuBLASLt. None: it needs only the CUDA runtime
    command   the command that record and certificates name
    lanes     lanes of a cluster, each of which makes one product for one architecture (none: made here)

    Earlier results are cached: with a changed spec only the changed parts are made again. Files of an earlier run that
    are no longer needed are removed, unless they were edited. Raises InvalidInput (the spec; `to` holds other files of
    these names) or GemmgenError (a kernel is wrong; `to` cannot be written).
    """
    from gemmgen.exports.library.building import Options, build_library, made_here
    from gemmgen.exports.library.clustered import made_by
    from gemmgen.exports.library.spec import Spec, read_spec

    require(fallback in (None, "cublaslt"), f"fallback = {fallback!r}: known are 'cublaslt' and None")
    name, _ = compile_target(arch)
    asked = spec if isinstance(spec, Spec) else read_spec(Path(spec), name)
    options = Options(
        device,
        count_of("budget", budget),
        count_of("examples", examples, 0),
        whole("seed", seed, least=0),
        count_of("points", points, 8),
        fallback is not None,
        command,
    )
    with shown(progress) as heard:
        make = partial(made_by, lanes) if lanes else made_here
        return build_library(asked, Path(to), options, heard, make)


def regret(
    spec: Spec | Folder,
    *,
    to: Folder,
    device: DeviceChoice = "auto",
    arch: str = "auto",
    sizes: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> tuple[ProductRegret, ...]:
    """Return how much longer a library's choices take than the fastest of all candidates, by product and
    architecture.

    spec   the specification of the library, as for `library`; `to` is the folder that holds it
    sizes  the number of sizes to draw at random from the ranges of `spec`, outside of the grid, and to time on a GPU
           (None: 200)
    seed   seed of the draws

    Without a GPU of an architecture nothing is measured: the result is the regret in the library's record, measured
    ("recorded") or predicted when the library was made. Raises InvalidInput if the folder holds no library of this
    spec, or if a number of sizes is given but none are drawn.
    """
    from gemmgen.exports.library.regret import measured_regret
    from gemmgen.exports.library.spec import Spec, read_spec

    name, _ = compile_target(arch)
    asked = spec if isinstance(spec, Spec) else read_spec(Path(spec), name)
    count = count_of("sizes", sizes)
    seed = whole("seed", seed, least=0)
    with shown(progress) as heard:
        return measured_regret(asked, Path(to), device, count, seed, heard)


def load(kernel: Kernel, *, device: DeviceChoice = "auto") -> ArrayKernel:
    """Load `kernel` as a function of arrays: `kernel(a, b)` of torch, CuPy, PyCUDA, JAX or numpy, without copying
    them.

    kernel  as for `verify`
    device  "gpu" (or "cuda") takes arrays on a GPU, in the context and on the stream that are current there; "emulator"
            takes arrays of the host, and is slow; "auto" takes the GPU if there is one

    On a GPU it is compiled at the first call, for the device of the arrays. It is not verified. Raises InvalidInput (no
    such kernel) or CandidateFailed (the device is not available; the emulator lacks an instruction of the kernel).
    """
    from gemmgen.arrays.library import load_source

    return load_source(kernel_file(kernel, compile_target("auto")[1]).source, device, Store())


def load_library(folder: Folder, *, device: DeviceChoice = "auto") -> ArrayLibrary:
    """Load the products of a folder that `library` wrote, by name, as functions of arrays: see `load`.

    Each takes arrays of any size; one whose B holds codes any number of rows of A.

    The rules in its record choose among its kernels, as its dispatcher in C does. Raises InvalidInput if the folder
    holds no library, or none for this device's architecture.
    """
    from gemmgen.arrays.library import load_library as load_folder

    return load_folder(Path(folder), device, Store())
