"""What records say of problems and kernels, as Python objects. What a record does not say is a default.

PROBLEM and LAUNCH are these defaults: they belong to the format of files, see `record_form`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, fields, replace
from typing import Any

from gemmgen.exports.json_records import Document, problem_document
from gemmgen.kernel.config import AXIS_END, axes_of_record
from gemmgen.kernel.contract import Contract, Parameter
from gemmgen.kernel.launch import Launch
from gemmgen.kernel.prepare import step_of_record
from gemmgen.kernel.source import KernelSource
from gemmgen.kernel.streamk import Stream
from gemmgen.kernel.tensor_map import TensorMap
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.inputs import PLAIN
from gemmgen.problem.sizes import RUNTIME
from gemmgen.problem.types import Compute, Types
from gemmgen.support.errors import require, whole


def field_defaults(record: type) -> Document:
    """The fields of a dataclass that have defaults, with these, as JSON-ready data."""
    values = {
        one.name: one.default if one.default_factory is MISSING else one.default_factory()
        for one in fields(record)
        if one.default is not MISSING or one.default_factory is not MISSING
    }
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def without(document: Mapping[str, Any], *names: str) -> Document:
    """`document` without the entries of these names."""
    return {name: value for name, value in document.items() if name not in names}


OF_KERNEL = ("name", "problem", "family", "config", "launch", "parameters")  # what of a record says how it is launched
PROBLEM = without(problem_document(Problem(1, 1, 1)), "m", "n", "k", "types", "compute", "layout")
FIELDS = ("m", "n", "k", "layout", "typical", "inputs", *PROBLEM)  # of a Problem, beside its types
LAUNCH = field_defaults(Launch)


def problem_from(fields: Mapping[str, Any]) -> Problem:
    """The problem that `json_records.problem_document` wrote; without some of what is a default, too."""
    fields = {**PROBLEM, "typical": {}, "inputs": PLAIN, **fields}
    given = {name: fields[name] for name in FIELDS}
    for name, value in given.items():
        require(value is not None, f'{name} is null: what is left to run time is "{RUNTIME}"')
    return Problem(**given, types=_types(fields))


def launch_from(fields: Mapping[str, Any]) -> Launch:
    """The launch that `Launch.document` gave; without some of what is a default, too."""
    launch = {**LAUNCH, **fields}
    return Launch(
        launch["threads"],
        tuple((size, tile) for size, tile in launch["grid"]),
        launch["shared_bytes"],
        launch["splits"],
        None if launch["stream"] is None else Stream(**launch["stream"]),
        launch["cluster"],
        tuple(launch["attributes"]),
        launch["summed"],
        tuple(_map_from(one) for one in launch["maps"]),
        launch["persistent"],
        tuple(step_of_record(one) for one in launch["prepares"]),
        launch["overlapped"],
        launch["groups"],
    )


def _map_from(document: Mapping[str, Any]) -> TensorMap:
    fields: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in document.items()}
    return TensorMap(**fields)


def source_of(record: Mapping[str, Any]) -> KernelSource:
    """The kernel that `json_records.kernel_document` wrote, without its text. Raises as `reading` expects it."""
    name, family = record["name"], record["family"]
    require(isinstance(family, str), f"family = {family!r} is no name")
    problem, launch = problem_from(record["problem"]), launch_from(record["launch"])
    is_word = isinstance(name, str) and re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) is not None
    require(is_word, f"name = {name!r} names no function")  # files get it too: with a "/" it would be a path
    contract = Contract.of(problem, launch)
    if (given := record.get("parameters")) is not None:
        contract = replace(contract, parameters=tuple(Parameter(**one) for one in given))
    return KernelSource(
        name=name,
        text="",
        family=family,
        config=axes_of_record({name: _axis(name, value) for name, value in record["config"].items()}),
        contract=contract,
    )


def _types(fields: Mapping[str, Any]) -> Types:
    if "dtype" in fields:  # in studies of the time when all operands had one type
        return Types.of(DType.parse(fields["dtype"]))
    a, b, c = (DType.parse(fields["types"][operand]) for operand in "abc")
    return Types(a, b, c, Compute.parse(fields["compute"]))


def _axis(name: str, value: object) -> int:
    number = whole(name, value, least=0)
    require(number < AXIS_END, f"{name} = {number}: less than {AXIS_END} is needed, as kernels have it as an int")
    return number
