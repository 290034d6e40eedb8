"""The form of a record in a file: entries are left out that are defaults, or that another entry repeats.

A new axis, launch field or figure of a verdict that has a default therefore changes no file, and a file shows what is
special about its kernel. In memory, and where `--json` prints it, a record is whole: `completed` puts back what
`shortened` leaves out. It accepts whole records, too: older files hold them.

The defaults are part of the format: whoever changes one changes what files say. A config leaves out only axes that
full names leave out as well, so that other defaults of axes may change.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from gemmgen.exports.json_records import VERDICTS, Document, case_document
from gemmgen.exports.record_reading import LAUNCH, PROBLEM, field_defaults, launch_from, problem_from
from gemmgen.families import FAMILIES
from gemmgen.kernel.config import axes_of_record
from gemmgen.kernel.contract import Contract
from gemmgen.kernel.tensor_map import TensorMap
from gemmgen.problem.gemm import Case
from gemmgen.support.jsontext import json_text

MAP = field_defaults(TensorMap)
RESOURCES = dict.fromkeys(("spill_bytes", "stack_bytes", "shared_bytes"), 0)

Part = tuple[Any, Document]  # of a record, and its defaults


def record_text(record: Mapping[str, Any]) -> str:
    """The text of NAME.json. Raises ValueError for a number that is not finite."""
    return f"{json_text(shortened(record))}\n"


def shortened(record: Mapping[str, Any]) -> Document:
    """`record` in the form of files. Raises as `completed` does."""
    whole = completed(record)
    defaults = {id(part): usual for part, usual in _parts(whole)}

    def less(value: Any) -> Any:
        if isinstance(value, list):
            return [less(one) for one in value]
        if not isinstance(value, dict):
            return value
        usual = defaults.get(id(value), {})
        return {name: less(one) for name, one in value.items() if name not in usual or one != usual[name]}

    return dict(less(whole))


def completed(record: Mapping[str, Any]) -> Document:
    """`record`, in the form of files or whole, as a whole one. Parts that it lacks as a whole, as "bench", stay away.

    Raises InvalidInput, KeyError, TypeError or the like where it is no record of a kernel, as `reading` expects it.
    """
    whole: Document = json.loads(json.dumps(record))
    if "config" in whole:
        whole["config"] = axes_of_record(whole["config"])
    for part, usual in _parts(whole):
        for name in usual.keys() - part.keys():
            part[name] = deepcopy(usual[name])
    return whole


def _parts(record: Document) -> Iterator[Part]:
    """The parts of `record` that have defaults. A part is complete before one is yielded whose defaults it decides."""
    if "problem" not in record:
        return
    yield record["problem"], PROBLEM
    problem = problem_from(record["problem"])
    only = None if problem.runtime_names else problem.case()  # of which every time and every situation is
    family = record.get("family")
    if "config" in record and isinstance(family, str) and family in FAMILIES:
        yield record["config"], FAMILIES[family].config_type.unnamed()
    if "launch" in record:
        yield record["launch"], LAUNCH
        yield from ((one, MAP) for one in record["launch"]["maps"])
        usual = Contract.of(problem, launch_from(record["launch"])).interface
        yield record, {"parameters": usual["parameters"]}
    if record.get("resources"):
        yield record["resources"], {**RESOURCES, "compiler": record.get("compiler")}
    verdicts, sanitized = [record[name] for name in VERDICTS if record.get(name)], record.get("sanitizers") or ()
    if verdicts or sanitized:
        from gemmgen.exports import verdict_form  # imports verification: who only renders a kernel does without

        for verdict in verdicts:
            yield from verdict_form.parts(verdict, only)
        yield from ((one, {**verdict_form.SANITIZER, "card": record.get("device")}) for one in sanitized)
    yield from _of_times(record, only)


def _of_times(record: Document, only: Case | None) -> Iterator[Part]:
    """The baseline was measured as the kernel was, where it does not say otherwise."""
    case = {} if only is None else {"case": case_document(only)}
    time, bench = record.get("time"), record.get("bench")
    if time:
        yield time, case
    if bench:
        yield bench, {"ours": time, "card": (record.get("executor") or {}).get("description")}
        ours, baseline = bench["ours"], bench.get("cublaslt")
        yield from ((one, case) for one in (ours, baseline) if one)
        if baseline and "protocol" in baseline:
            yield baseline["protocol"], (ours or {}).get("protocol", {})
