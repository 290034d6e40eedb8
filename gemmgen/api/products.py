"""What kernels become: exported folders, libraries, and functions of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gemmgen.api.asked import Kernel, kernel_file
from gemmgen.exports.exporting import Exported, Wish, export_verified
from gemmgen.exports.writing import Folder
from gemmgen.run.card import compile_target
from gemmgen.run.target import DeviceChoice
from gemmgen.search.shown import shown
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

    What other kernels `to` holds that were exported stays, and goes into its build file.

    device    where it is verified, as for `tune`
    arch      what to compile for; "auto" is the one that the kernel's JSON names, else the GPU's, else sm_90
    examples  situations to verify it in (None: 100, of large problems 20; 0: none, and the certificate says so)
    seed      of all that is drawn
    name      what kernel, files and launcher are called, a C identifier (None: the kernel's own name)
    torch     write operators of torch, too: NAME_torch.cpp, for torch.utils.cpp_extension or CMake with LibTorch
    command   what the certificate says that it was made by

    A kernel that is wrong is not written: `files` is empty, and `verdict` says how it is wrong.
    Raises InvalidInput (no such kernel; `to` holds other files of these names; `torch`, and the kernel takes arrays of
    pointers), CandidateFailed (it does not compile; the device is not available) or GemmgenError (`to` cannot be
    written).
    """
    if examples is not None:
        examples = whole("examples", examples, least=0)
    seed = whole("seed", seed, least=0)
    _, spec = compile_target(arch)
    found = kernel_file(kernel, spec).alone
    with shown(progress) as heard:
        wish = Wish(device, arch, examples, seed, command, heard, torch)
        (exported,) = export_verified([found if name is None else found.renamed(name)], Path(to), wish)
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
    """`export` of several kernels into one folder, with one build file. The first that is wrong ends it, unwritten.

    Raises InvalidInput besides for kernels of one name: `KernelFile.renamed` gives another.
    """
    if examples is not None:
        examples = whole("examples", examples, least=0)
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

    spec      a SPEC.toml, or what one says
    device    where kernels are verified and timed, as for `tune`; of other architectures than the GPU's they are
              verified in the emulator, and their times are predicted
    arch      what to compile for where the spec names no architectures; "auto" is the GPU's, else sm_90
    budget    candidates of each search, and of one for many sizes those per size in its first round (None: 24 and 2;
              without a GPU 1, or 2 where that one fails)
    examples  situations to verify each kernel in (None: as for `export`, and in the emulator a sixth of that, where one
              launch runs 3 times)
    seed      of all that is drawn
    points    sizes at which a product's kernels are timed, at most (None: 112 measured, 256 predicted)
    fallback  "cublaslt" lets cuBLASLt serve sizes for which it was measured to be faster than all kernels, of products
              with the linear epilogue; the library then needs it. None: it needs the CUDA runtime alone
    command   what record and certificates say that it was made by
    lanes     of a cluster, that each make what one product needs on one architecture (none: it is made here)

    What was found before is taken from the cache: with a changed spec only what changed is done again. Files of an
    earlier run that are no longer named are removed, unless they were edited.
    Raises InvalidInput (the spec; `to` holds other files of these names) or GemmgenError (a kernel is wrong; `to`
    cannot be written).
    """
    from gemmgen.exports.library.building import Options, build_library, made_here
    from gemmgen.exports.library.clustered import made_by
    from gemmgen.exports.library.spec import Spec, read_spec

    require(fallback in (None, "cublaslt"), f"fallback = {fallback!r}: known are 'cublaslt' and None")
    name, _ = compile_target(arch)
    asked = spec if isinstance(spec, Spec) else read_spec(Path(spec), name)
    options = Options(
        device,
        None if budget is None else whole("budget", budget, least=1),
        None if examples is None else whole("examples", examples, least=0),
        whole("seed", seed, least=0),
        None if points is None else whole("points", points, least=8),
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
    """How much longer the choices of a library take than the fastest of all candidates, by product and architecture.

    spec   what the library was made of, as for `library`, and `to` the folder that holds it
    sizes  so many, drawn at random from the ranges of `spec` and not of the grid, that a GPU times kernels for: 200
           where it is None
    seed   of what is drawn

    Where there is no GPU of an architecture nothing is measured: there sizes of the library's record are decided by
    rules made without them ("cross-validated"), if its times were measured, and else predicted times are compared.
    Raises InvalidInput where the folder holds no library of this spec, and for a number of sizes where none are drawn.
    """
    from gemmgen.exports.library.regret import measured_regret
    from gemmgen.exports.library.spec import Spec, read_spec

    name, _ = compile_target(arch)
    asked = spec if isinstance(spec, Spec) else read_spec(Path(spec), name)
    count = None if sizes is None else whole("sizes", sizes, least=1)
    seed = whole("seed", seed, least=0)
    with shown(progress) as heard:
        return measured_regret(asked, Path(to), device, count, seed, heard)


def load(kernel: Kernel, *, device: DeviceChoice = "auto") -> ArrayKernel:
    """`kernel` as a function of arrays: `kernel(a, b)` of torch, CuPy, PyCUDA, JAX or numpy, without a copy of them.

    kernel  as for `verify`
    device  "gpu" (or "cuda") takes arrays of a GPU, in the context and on the stream that are current there; "emulator"
            takes arrays of the host, and is slow; "auto" takes the GPU where there is one

    On a GPU it is compiled at the first call, for the device of the arrays. Nothing verifies it here.
    Raises InvalidInput (no such kernel) or CandidateFailed (the device is not available; the emulator has no twin of
    what the kernel uses).
    """
    from gemmgen.arrays.load import load_source

    return load_source(kernel_file(kernel, compile_target("auto")[1]).source, device, Store())


def load_library(folder: Folder, *, device: DeviceChoice = "auto") -> ArrayLibrary:
    """The products of a folder that `library` wrote, by name, as functions of arrays of any size: see `load`.

    The rules of its record choose among its kernels, as its dispatcher in C does.
    Raises InvalidInput where the folder holds no library, or none for this device's architecture.
    """
    from gemmgen.arrays.load import load_library as load_folder

    return load_folder(Path(folder), device, Store())
