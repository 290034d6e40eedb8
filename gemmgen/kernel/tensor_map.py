"""Tensor maps: how TMA (sm_90 and newer) moves boxes of an operand to and from shared memory, as data of a launch.

The rules are those of CUDA's driver API for cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col, which report only
"invalid value". Stores write whole chunks of 16 bytes: if a line of the tensor ends within one, they also write what
lies behind the line (measured on an H200).

In im2col mode a tensor holds images (NHWC), and a box holds some channels of pixels that lie under one tap of a filter,
at consecutive places of the filter: it walks along a row of places, then to the next row, then to the next image.
Pixels outside of an image are zeros.

A bounded map lets coordinates say behind which line zeros begin, for ranges of lines that only the device knows. Its
address arithmetic is modulo 2^64: line x of the box lies BOUND lines before where the third and the fourth coordinate
lead, as the third one's BOUND steps of WRAP / BOUND bytes, less a line each, are WRAP = 2^64 bytes less BOUND lines.
"""

from __future__ import annotations

import struct
from dataclasses import asdict, dataclass, replace
from typing import Any

from gemmgen.problem.convolution import Convolution
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Case
from gemmgen.problem.matrix import Matrix
from gemmgen.support.errors import InvalidInput, require

SWIZZLES = (0, 32, 64, 128)  # bytes of a pattern's lines; 0 is none
PROMOTIONS = (0, 64, 128, 256)  # bytes that L2 fetches at once; 0 leaves it alone
ELEMENT_BYTES = (1, 2, 4, 8)  # moved as unsigned integers, which no conversion touches
UNIT = 16  # bytes that divide addresses, strides and lines of boxes
PATTERN_LINES = 8  # of a swizzled box, after which the pattern repeats
MOST_BOX = 256  # elements along each dimension of a box
MOST_SIZE = 2**32  # elements along each dimension of the tensor
MOST_STRIDE = 2**40  # bytes
MOST_DIMENSIONS = 4  # TMA has five; a matrix has two, a batch of them three, all of memory four
# In im2col mode of two dimensions of pixels, columns before rows, as CUTLASS passes them (cuda.h says {D, H, W}): how
# far corners may lie from an image's first and last pixel, pixels from a place of the filter to the next, and pixels
# from a place to a tap, which an instruction's offsets say.
LEAST_CORNER, MOST_CORNER = -128, 127
MOST_STEP = 8
MOST_TAP = 255
# An address as coordinates of a map that begins at 0: units of 16 bytes, and so many of these; a coordinate is an int
NEAR = 2**31
FAR = 2**14  # for the 49 bits of an address
BOUND = 2**30  # the first line outside of a bounded map, and so many of them before its third dimension's steps end
WRAP = 2**64  # bytes after which addresses begin again
MAP_BYTES, MAP_ALIGNMENT = 128, 64  # of the parameter
RARE = ("anywhere", "tail", "corners", "steps", "bounded")  # fields that few maps set
EXTENTS = {"A": "M", "B": "N"}  # the number of lines of an operand that has a tail


@dataclass(frozen=True)
class TensorMap:
    """The map of one operand: a kernel's parameter `map_a` for A.

    operand    the operand's name in `Case.tensors`
    box        elements of a box along a line, its lines, and its matrices: 1 in a batch; 1 and 1 if `anywhere` or
               `bounded`
    swizzle    bytes of a line whose 16-byte chunks are permuted in shared memory; 0 for none
    promotion  bytes that L2 fetches at once; 0: only what is asked for
    tf32       whether TMA rounds f32 to tf32 on the way to shared memory: to nearest, ties to even
    anywhere   whether the map covers all memory from address 0 on, for matrices that pointers name. Two more
               coordinates say where a matrix begins (see NEAR and FAR); the first two still end with the matrix
    tail       whether its box has only the lines that remain for the last box of `box[1]` lines: see `tail_lines`
    corners    columns and rows from an image's first pixel to the first place of a filter, then those from its last
               pixel to the last place; none in tile mode. In im2col mode a box is some channels of as many pixels
    steps      columns and rows from one place of the filter to the next; none in tile mode
    bounded    whether its lines end where coordinates say: (x, BOUND - n, BOUND, end) is a box whose first n lines are
               those from `end` - n on; lines behind these are zeros
    """

    operand: str
    box: tuple[int, ...]
    swizzle: int = 0
    promotion: int = 0
    tf32: bool = False
    anywhere: bool = False
    tail: bool = False
    corners: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    bounded: bool = False

    def __post_init__(self) -> None:
        where = f"the tensor map of {self.operand}"
        _require_walk(where, self.corners, self.steps)
        plain = len(self.box) == 2 and not (self.anywhere or self.tail)
        require(not self.steps or plain, f"{where}: in im2col mode a box is channels and pixels")
        apart = not (self.bounded and (self.anywhere or self.tail))
        require(apart, f"{where} is bounded by coordinates: it has no tail and covers no memory but the operand's")
        known_ranks = (MOST_DIMENSIONS,) if self.anywhere or self.bounded else (2, 3)
        ranks = " or ".join(map(str, known_ranks))
        require(len(self.box) in known_ranks, f"{where} has a box of {len(self.box)} dimensions, not {ranks}")
        for length in self.box:
            require(
                type(length) is int and 1 <= length <= MOST_BOX,
                f"{where}: {length} elements along a dimension of its box are not 1 to {MOST_BOX}",
            )
        for value, known, what in ((self.swizzle, SWIZZLES, "swizzle"), (self.promotion, PROMOTIONS, "promotion")):
            require(value in known, f"{where}: {what} of {value} bytes; known are {', '.join(map(str, known))}")
        require(
            not self.tail or (self.operand in EXTENTS and self.box[1] % PATTERN_LINES == 0),
            f"{where} has no tail of boxes of {self.box[1]} lines: A and B have, of a multiple of {PATTERN_LINES}",
        )

    @property
    def document(self) -> dict[str, Any]:
        """The map as JSON-ready data; fields that few maps set are left out when empty."""
        return {name: value for name, value in asdict(self).items() if value or name not in RARE}

    @property
    def parameter(self) -> str:
        """The name of the kernel parameter."""
        return parameter_of(self.operand, self.tail)

    @property
    def words(self) -> str:
        """What a caller encodes, without sizes and strides: "boxes of 64 x 128 elements, swizzle of 128 bytes"."""
        length, lines, *matrices = map(str, self.box)
        if self.tail:
            eight = PATTERN_LINES
            lines = f"(({EXTENTS[self.operand]} - 1) % {lines} / {eight} * {eight} + {eight})"
        if self.steps:
            return f"im2col, {self._walk}; boxes of {length} channels x {lines} pixels, {self._moved}"
        boxes = f"boxes of {' x '.join((length, lines, *matrices))} elements{', as tf32' if self.tf32 else ''}"
        return f"{boxes}, {self._moved}"

    @property
    def _walk(self) -> str:
        (left, top, right, bottom), (across, down) = self.corners, self.steps
        steps = "" if self.steps == (1, 1) else f", in steps of {{{across}, {down}}}"
        corners = f"{{{left}, {top}}} from an image's first pixel and {{{right}, {bottom}}} from its last"
        return f"bounding box with corners {corners}, as {{W, H}}{steps}"

    @property
    def _moved(self) -> str:
        swizzle = f"swizzle of {self.swizzle} bytes" if self.swizzle else "no swizzle"
        return swizzle + (f", L2 promotion of {self.promotion} bytes" if self.promotion else "")

    def of(self, case: Case, copy: Matrix | None = None) -> TiledTensor:
        """Return the map's numbers for `case`, for the operand or a `copy`. Raises InvalidInput if TMA cannot read
        it."""
        matrix = case.tensors[self.operand] if copy is None else copy
        require(
            self.anywhere == case.problem.pointers,
            f"{self.operand} lies {'' if self.anywhere else 'where pointers say, not '}where its map begins",
        )
        if self.steps:
            return self._of_images(case, matrix)
        batched = len(self.box) == 3
        require(
            self.anywhere or batched == (matrix.batch is not None),
            f"the tensor map of {self.operand} has {len(self.box)} dimensions, for {matrix.batch or 'no'} batch",
        )
        size = matrix.dtype.size
        # An empty tensor has no map; a kernel moves nothing of it, and is given one of a single element.
        sizes = [max(1, matrix.line_length), max(1, matrix.lines)]
        strides = [matrix.ld * size]
        if self.anywhere:
            sizes += [NEAR, FAR]
            strides += [UNIT, UNIT * NEAR]
        elif self.bounded:
            too_deep = f"{self.operand} has {matrix.lines} lines, and coordinates of a bounded map tell {BOUND} apart"
            require(matrix.lines <= BOUND, too_deep)
            sizes = [sizes[0], BOUND, NEAR, NEAR]
            strides = [strides[0], WRAP // BOUND - strides[0], strides[0]]
        elif matrix.batch is not None:
            sizes.append(max(1, matrix.batch))
            strides.append(matrix.stride * size)
        require(not self.tf32 or matrix.dtype is DType.F32, f"{self.operand} of {matrix.dtype.label} becomes no tf32")
        moved = (self.box, self.swizzle, self.promotion, self.tf32, self.anywhere)
        whole = TiledTensor(self.operand, size, tuple(sizes), tuple(strides), *moved)
        return whole.with_tail() if self.tail else whole

    def _of_images(self, case: Case, pixels: Matrix) -> TiledTensor:
        """The same in im2col mode, of the images whose pixels are the lines of A, or of B."""
        conv, inputs = case.problem.inputs.conv, case.problem.inputs
        require(self.operand == inputs.images, f"{self.operand} holds no images")
        assert conv is not None
        (height, width, channels), size = conv.size, pixels.dtype.size
        pixel, images = pixels.ld * size, conv.images(int(case.values[inputs.places]))
        return TiledTensor(
            self.operand,
            size,
            (channels, width, height, max(1, images)),
            (pixel, width * pixel, conv.pixels * pixel),
            (*self.box, 1, 1),
            self.swizzle,
            self.promotion,
            self.tf32,
            corners=self.corners,
            steps=self.steps,
        )


@dataclass(frozen=True)
class TiledTensor:
    """The contents of a map without the address: sizes in elements, contiguous dimension first, and the other
    strides.

    strides  bytes from one line, and from one matrix, to the next
    anywhere whether its address is 0, whatever the operand's is
    tail     lines of a whole box, if this map's box has only the remainder; 0 for other maps
    corners  as those of TensorMap; in im2col mode sizes are channels, columns, rows and images, and a box is channels
    steps    and pixels
    """

    operand: str
    element_bytes: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    promotion: int
    tf32: bool = False
    anywhere: bool = False
    tail: int = 0
    corners: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        where = f"TMA cannot move {self.operand}:"
        _require_walk(where, self.corners, self.steps)
        require(self.element_bytes in ELEMENT_BYTES, f"{where} elements of {self.element_bytes} bytes")
        require(
            len(self.sizes) == len(self.box) == len(self.strides) + 1,
            f"{where} {len(self.sizes)} sizes, {len(self.strides)} strides and a box of {len(self.box)} dimensions",
        )
        for size in self.sizes:
            require(1 <= size <= MOST_SIZE, f"{where} {size} elements along a dimension are not 1 to 2^32")
        for place, stride in enumerate(self.strides):  # all matrices of a batch may be one
            require(
                (0 if place else 1) <= stride < MOST_STRIDE and stride % UNIT == 0,
                f"{where} {stride} bytes from a line, or matrix, to the next are no multiple of {UNIT} below 2^40",
            )
        line = self.box_line
        require(line % UNIT == 0, f"{where} {line} bytes of a box's line are no multiple of {UNIT}")
        # TMA takes shorter lines, too; where their chunks lie is in no manual.
        require(
            self.swizzle in (0, line), f"{where} a box's line of {line} bytes does not fill a swizzle of {self.swizzle}"
        )

    @property
    def box_line(self) -> int:
        """Bytes of a line of a box in shared memory."""
        return self.box[0] * self.element_bytes

    def with_tail(self) -> TiledTensor:
        """The same map with boxes of as many lines as remain for the last box."""
        length, lines, *matrices = self.box
        return replace(self, box=(length, tail_lines(self.sizes[1], lines), *matrices), tail=lines)

    def require_address(self, address: int) -> None:
        """Raise InvalidInput for an address that TMA cannot take."""
        if address % UNIT:
            raise InvalidInput(f"TMA cannot move {self.operand}: {UNIT} does not divide its address {address:#x}")

    def pack(self, address: int) -> bytes:
        """The parameter as the emulator reads it, laid out as in gemmgen/run/emulator/native/tma.hpp."""
        sizes = (*self.sizes, 1, 1)[:MOST_DIMENSIONS]
        strides = (*self.strides, 0, 0)[: MOST_DIMENSIONS - 1]
        box = (*self.box, 1, 1)[:MOST_DIMENSIONS]
        numbers = (*box, self.element_bytes, len(self.sizes), self.swizzle, self.tf32)
        walk = (*(self.corners or (0,) * 4), *(self.steps or (0, 0)))
        return struct.pack("<Q4Q3Q8I4i2I", address, *sizes, *strides, *numbers, *walk).ljust(MAP_BYTES, b"\0")


def im2col_walk(conv: Convolution) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The corners and the steps of a map for `conv`, columns before rows."""
    first, last = conv.corners
    return (*first[::-1], *last[::-1]), conv.stride[::-1]


def _require_walk(where: str, corners: tuple[int, ...], steps: tuple[int, ...]) -> None:
    if not corners and not steps:
        return
    least, most = LEAST_CORNER, MOST_CORNER
    known = len(corners) == 4 and all(least <= one <= most for one in corners)
    require(known, f"{where} corners {corners} of im2col mode are not four numbers from {least} to {most}")
    known = len(steps) == 2 and all(1 <= one <= MOST_STEP for one in steps)
    require(known, f"{where} steps {steps} of im2col mode are not two numbers from 1 to {MOST_STEP}")


def parameter_of(operand: str, tail: bool = False) -> str:
    """The name of the parameter that is the map of `operand`, "map_a", or that of its last box, "map_a_tail"."""
    return f"map_{operand.lower()}{'_tail' if tail else ''}"


def tail_lines(lines: int, box: int) -> int:
    """Lines of the last of the boxes of `box` lines that cover `lines`, rounded up to a whole swizzle pattern."""
    return (lines - 1) % box // PATTERN_LINES * PATTERN_LINES + PATTERN_LINES
