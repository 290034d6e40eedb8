"""The errors that a library's functions return."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Status:
    """A cudaError_t that a library returns, and its meaning."""

    name: str
    meaning: str


SUCCESS = Status("cudaSuccess", "the product is on the stream")
INVALID = Status("cudaErrorInvalidValue", "an argument is null or out of its range, or the workspace is too small")
MISALIGNED = Status(
    "cudaErrorMisalignedAddress", "an address is not divisible by its elements' size, or the workspace's not by 256"
)
NO_GRID = Status(
    "cudaErrorInvalidConfiguration",
    "C has more tiles than a grid can have blocks, or the device's blocks have too little shared memory",
)
MISALIGNED_BESIDE_CODES = Status(
    "cudaErrorMisalignedAddress",
    "an address is not divisible by its elements' size, or by 16 bytes beside a packed B, or that of a workspace or a "
    "packed B not by 256",
)
MISALIGNED_WHERE_TOLD = Status(
    "cudaErrorMisalignedAddress",
    "an address is not divisible by what its function says, or that of a workspace or a packed B not by 256",
)
OLD_DRIVER = Status("cudaErrorCallRequiresNewerDriver", "the driver is older than CUDA 12.0")
OF_CUBLASLT = (
    Status("cudaErrorNotSupported", "cuBLASLt has no algorithm for the product"),
    Status("cudaErrorInitializationError", "cuBLASLt makes no handle"),
    Status("cudaErrorLaunchFailure", "cuBLASLt does not start the product"),
    Status("cudaErrorInvalidDevice", "cuBLASLt serves the first 64 devices alone"),
)
