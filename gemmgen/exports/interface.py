"""The interface of an exported kernel: its signature, ranges, workspace and launch. Values only, no code."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from gemmgen.exports.arguments import WORKSPACE_ALIGN, Alignment, Argument, LeadingDimension, Part, Stride
from gemmgen.exports.maps import Copy, Maps, PackedCodes, Sums
from gemmgen.exports.signature import Signature
from gemmgen.kernel.contract import OPERANDS
from gemmgen.kernel.launch import DEPENDENT_LAUNCH
from gemmgen.kernel.prepare import LineSums, Pack, Step
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.sizes import POINTER_BYTES
from gemmgen.support.words import listed


@dataclass(frozen=True)
class Interface(Signature):
    """The launcher of a kernel as the templates see it.

    torch  whether NAME_torch.cpp, with operators of torch, comes with it
    """

    torch: bool = False
    workspace_align = WORKSPACE_ALIGN

    @property
    def takes_packed(self) -> bool:
        """Whether every call takes B packed, not only plans that ask for it."""
        return False

    @cached_property
    def prepared(self) -> tuple[Copy | Sums, ...]:
        """The parts of the workspace that launches before the kernel's write, in order."""
        *steps, _ = self.source.program
        return tuple(self._prepared(*one) for one in zip(self.launch.prepares, steps, strict=True))

    def _prepared(self, prepare: Step, step: KernelSource) -> Copy | Sums:
        passed = tuple(self._argument(parameter).passed for parameter in step.parameters)
        given = self.problem, self.sizes, step.name, passed
        if isinstance(prepare, LineSums):
            return Sums(prepare, *given)
        return PackedCodes(prepare, *given) if isinstance(prepare, Pack) else Copy(prepare, *given)

    @property
    def copies(self) -> tuple[Copy, ...]:
        """The copies among them, packed codes too."""
        return tuple(one for one in self.prepared if isinstance(one, Copy))

    @property
    def padded(self) -> tuple[Copy, ...]:
        """The copies whose lines are padded: all but packed codes."""
        return tuple(one for one in self.copies if not isinstance(one, PackedCodes))

    @property
    def summed(self) -> tuple[str, ...]:
        """The operands whose lines are summed."""
        return tuple(one.operand for one in self.prepared if isinstance(one, Sums))

    @property
    def made_of(self) -> dict[str, str]:
        """What launches before the kernel do for A and for B: nothing (""), "copies A" or "sums A's rows"."""
        return {operand: " and ".join(one.does for one in self.prepared if one.operand == operand) for operand in "AB"}

    @property
    def structs(self) -> tuple[str, ...]:
        """The kernel's own types that its launches take."""
        types = " ".join(parameter.ctype for step in self.source.program for parameter in step.parameters)
        return tuple(sorted({*re.findall(r"\b[A-Z]\w*", types)}))

    @property
    def kept(self) -> tuple[Argument, ...]:
        """The arguments that a plan keeps as they are."""
        used = {p.text for step in self.source.program for p in step.parameters} | {*self.workspace_sizes}
        return tuple(argument for argument in self.arguments if argument.text in used)

    @property
    def planned(self) -> tuple[str, ...]:
        """The initialisers of a plan's fields, except for the encoded maps and the number of blocks."""
        return ("{}",) * len(self.maps.encoded) + self.plan_fields[len(self.maps.encoded) : -1]

    @property
    def plan_fields(self) -> tuple[str, ...]:
        """The names of a plan's fields."""
        kept = (one.text for one in self.kept)
        return (*(one.map.parameter for one in self.maps.encoded), *kept, *(one.name for one in self.parts), "blocks")

    @property
    def passed(self) -> tuple[str, ...]:
        """The kernel's arguments, in order."""
        return tuple(
            f"as_parameter({one.name})" if one.is_map else self._argument(one).passed for one in self.source.parameters
        )

    @cached_property
    def maps(self) -> Maps:
        """The tensor maps that it takes."""
        groups = self.problem.inputs.groups
        return Maps(self.source.contract, self.sizes | ({"batch": str(groups)} if groups else {}), self.copies)

    @property
    def asks_device(self) -> bool:
        """Whether a plan depends on the device."""
        return bool(self.maps.encoded or self.feature or self.launch.persistent)

    @property
    def runtime_lds(self) -> tuple[LeadingDimension, ...]:
        matrices = {one.ld: one for one in self.problem.matrices if one.ld in self.runtime_names}
        return tuple(
            LeadingDimension(
                name, one.extent_text(one.line, self.sizes), self._unit(name), int(self.maps.unit(name) > 1)
            )
            for name, one in matrices.items()
        )

    def _unit(self, distance: str) -> int:
        """The number of elements that divides a run-time leading dimension, or stride."""
        return max(self.problem.ld_align, self.maps.unit(distance))

    @property
    def runtime_strides(self) -> tuple[Stride, ...]:
        return tuple(
            Stride(
                name,
                one.extent_text(one.lines, self.sizes),
                self.sizes[one.ld],
                one.extent_text(one.line, self.sizes),
                self._unit(name),
                name != "stride_c",
                self.batch,
            )
            for name, one in {one.stride: one for one in self.problem.matrices}.items()
            if name in self.runtime_names
        )

    @cached_property
    def aligns(self) -> dict[str, int]:
        """The alignment in bytes of the addresses in these arguments, by the argument's name."""
        behind = dict.fromkeys(OPERANDS, POINTER_BYTES) if self.problem.pointers else {}
        return {
            text: behind.get(name) or max(self.problem.align_of(name), self.maps.align(name))
            for name, text in self.located.items()
        }

    @property
    def alignments(self) -> tuple[Alignment, ...]:
        """The arguments by their alignment in bytes, where that is more than 1."""
        return tuple(
            Alignment(align, tuple(text for text, one in self.aligns.items() if one == align))
            for align in dict.fromkeys(self.aligns.values())
            if align > 1
        )

    @property
    def unaligned(self) -> tuple[str, ...]:
        """The arguments that may be any address."""
        return tuple(text for text, align in self.aligns.items() if align == 1)

    @property
    def pointer_align(self) -> int:
        """The alignment in bytes of all operands' addresses."""
        return max(self.problem.pointer_align, *(self.maps.align(name) for name in OPERANDS))

    @property
    def grid(self) -> tuple[tuple[str, int], ...]:
        """(size, tile): the grid has the product of ceil(size / tile) blocks."""
        return tuple((self.sizes[size], tile) for size, tile in self.launch.grid)

    @property
    def dependent(self) -> bool:
        """Whether its start may overlap with the end of the kernel before."""
        return DEPENDENT_LAUNCH in self.launch.attributes

    @property
    def starts_early(self) -> bool:
        """Whether any of its launches may start early."""
        return self.dependent or self.launch.overlapped

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The parts of the workspace, in order; parts made from B come first, as M does not move them."""
        prepared = sorted(self.prepared, key=lambda one: one.operand, reverse=True)
        return (*(Part(f"{one.element}*", one.part, one.bytes) for one in prepared), *self._sums)

    @cached_property
    def packed(self) -> tuple[Part, ...]:
        """The parts made from B, which come first and which plans may share; none if the kernel reads B itself."""
        made = {
            one.part for one in self.prepared if one.operand == "B" and any(copy.operand == "B" for copy in self.copies)
        }
        return tuple(part for part in self.parts if part.name in made)

    @property
    def packed_end(self) -> str:
        """The start of what follows the parts made from B: another part's name, or "bytes" for the end."""
        behind = self.parts[len(self.packed) :]
        return behind[0].name if behind else "bytes"

    @property
    def packing(self) -> tuple[Argument, ...]:
        """The arguments that say where B and its companions are, and how B lies."""
        b = next(matrix for matrix in self.problem.matrices if matrix.name == "B")
        names = (*self.packed_from, b.rows, b.cols, b.ld, "batch", b.stride)
        return tuple(argument for argument in self.arguments if argument.text in names)

    @property
    def packed_from(self) -> tuple[str, ...]:
        """The tensors that `packed` replaces: B, and what goes with its codes."""
        return ("B", *(one.name for one in self.problem.packed_with_b))

    @property
    def packed_words(self) -> str:
        """These tensors in words: "B, scales_b and zeros_b"."""
        return listed(self.packed_from)

    @property
    def packed_sizes(self) -> tuple[str, ...]:
        """The sizes among `runtime_sizes` on which the parts made from B depend."""
        used = {name for one in self.prepared if one.operand == "B" for name in one.sized_by}
        return tuple(name for name in self.runtime_sizes if name in used)

    @property
    def workspace_of_packed(self) -> tuple[str, ...]:
        """The sizes that a workspace with only the parts made from B depends on: 0 stands for all others."""
        return tuple(name if name in self.packed_sizes else "0" for name in self.workspace_sizes)

    @property
    def by_packed(self) -> tuple[Argument, ...]:
        """The launcher's arguments if `packed` replaces B, its layout and its companions."""
        packed = Argument("const void*", "packed", "packed")
        left_out = ("ldb", "stride_b", *self.packed_from[1:])
        return tuple(packed if one.text == "B" else one for one in self.arguments if one.text not in left_out)

    @property
    def by_packed_passed(self) -> tuple[str, ...]:
        """What is passed for the launcher's arguments if `packed` replaces B and its companions."""
        other = {**dict.fromkeys(self.packed_from, "nullptr"), "stride_b": "0"}
        return tuple(other.get(argument.text, argument.text) for argument in self.arguments)

    @property
    def _sums(self) -> tuple[Part, ...]:
        """The parts that blocks which share tiles need."""
        if not self.launch.leaves_partials:
            return ()
        left, tiles = f"{self.tiles_of_c} * {self.launch.splits}", self.tiles_of_c
        if self.stream:
            left, tiles = f"({self.stream} + {self.tiles_of_c} % {self.stream})", str(self.stream)
        sums = self.element["sums"]
        return (
            Part("unsigned*", "semaphores", f"{tiles} * sizeof(unsigned)"),
            Part(f"{sums}*", "partials", f"{left} * {self.launch.partial_elements} * sizeof({sums})"),
        )

    @property
    def stream(self) -> int:
        """Blocks that share the last tiles; 0 if each tile has its own blocks."""
        return 0 if self.launch.stream is None else self.launch.stream.blocks

    @property
    def tiles(self) -> str:
        """The number of tiles of C, in terms of functions tiles_of(size, tile) and tiles_of_groups(rows, tile)."""
        counted = [f"tiles_of({size}, {tile})" for size, tile in self.grid]
        if self.launch.row_groups:
            counted[0] = counted[0].replace("tiles_of", "tiles_of_groups")
        return " * ".join(counted) or "1"

    @property
    def tiles_of_c(self) -> str:
        """The number of tiles of C as a call of the launcher's function."""
        return f"tiles_of_c({', '.join(self.tile_sizes)})"

    @property
    def tile_sizes(self) -> tuple[str, ...]:
        """The arguments that the number of tiles depends on."""
        counted = {size for size, _ in self.launch.grid}
        return tuple(name for name in self.runtime_sizes if name in counted)

    @property
    def workspace_sizes(self) -> tuple[str, ...]:
        """The arguments that the workspace's size depends on."""
        used = {name for one in self.prepared for name in one.sized_by} | {
            *(self.tile_sizes if self.launch.leaves_partials else ())
        }
        return tuple(name for name in self.runtime_sizes if name in used)
