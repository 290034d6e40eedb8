"""What kernels compute, as the operators see it that choose one for each call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from gemmgen.support.errors import InvalidInput
from gemmgen.torch.operator import kernel_named, torch_type


class Served:
    """A kernel that an operator may choose; a subclass knows the operator's calls.

    types  torch's types of A, B and C
    """

    def __init__(self, identity: str) -> None:
        kernel = kernel_named(identity)
        self.name, self.problem = kernel.name, kernel.source.problem
        self.types = tuple(map(torch_type, self.problem.types.operands))

    def lacks(self, asked: Any) -> str | None:
        """Why the kernel does not compute what is asked for; None if it does."""
        raise NotImplementedError

    @property
    def takes(self) -> str:
        """The beginning of a reason: the kernel and its inputs."""
        return f"{self.name} has inputs = {self.problem.inputs}"

    def other_sizes(self, what: str, **sizes: Any) -> Iterator[str]:
        """The sizes for which the kernel is built, and which differ from those of this call."""
        for name, size in sizes.items():
            fixed = self.problem.sizes[name]
            if fixed not in (None, size):
                yield f"is built for {name} = {fixed}, and this {what} has {size}"


def fitting(served: Callable[[str], Served], kernels: Sequence[str], asked: Any) -> list[str]:
    """The kernels that compute what is asked for."""
    return [one for one in kernels if served(one).lacks(asked) is None]


def refuse(served: Callable[[str], Served], kernels: Sequence[str], asked: Any) -> NoReturn:
    """Raise InvalidInput with the reason of each kernel."""
    reasons = [str(served(one).lacks(asked)) for one in kernels]
    raise InvalidInput(f"no kernel fits: {'; '.join(reasons) or 'there are none'}")
