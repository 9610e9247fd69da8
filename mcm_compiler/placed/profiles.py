"""Times of ops that were measured on devices: profiles of onnxruntime, tables, and their coverage.

A profile becomes a table of the cost model `table` for a kind of device.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from mcm_compiler.components.cost_choice import ChosenCosts
from mcm_compiler.components.cost_files import CostCoverage, held_files, measured_costs
from mcm_compiler.contracts.boxes.box import BoxTarget, StepProblem
from mcm_compiler.contracts.cost import CostModel, ModelNames
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.graph.source import SOURCE
from mcm_compiler.placed import device_costs
from mcm_compiler.placed.device_costs import TakesDeviceCosts
from mcm_compiler.placed.placed_model import runs_of
from mcm_compiler.text.json_text import UnreadableError, parse_json, read_bounded
from mcm_compiler.text.spec_text import print_value
from mcm_compiler.text.units import percent_text

MAX_PROFILE_BYTES = 1 << 30
"""A run of a large model leaves some hundred bytes for each op."""

_SUFFIX = "_kernel_time"
_MAX_S = 1e6


def profiled_seconds(paths: Sequence[Path]) -> dict[str, float]:
    """The time of each op in profiles that onnxruntime wrote, as JSON.

    Args:
        paths: profiles on devices of one kind, of sessions of the same model or of parts of it.

    Returns:
        Seconds by name, the median over all runs of all profiles. What onnxruntime does before and
        behind a kernel is not in them.

    Raises:
        CompileError: MCM-D077 for a file that is no such profile.
    """
    runs: dict[str, list[float]] = {}
    for path in paths:
        try:
            events = parse_json(read_bounded(path, MAX_PROFILE_BYTES))
        except UnreadableError as error:
            raise _no_profile(path, str(error)) from error
        if not isinstance(events, list):
            raise _no_profile(path, "it is no list of events")
        before = len(runs)
        for place, event in enumerate(events):
            if isinstance(event, dict) and event.get("cat") == "Node":
                _take(runs, event, place, path)
        if len(runs) == before and not any(map(_is_kernel, events)):
            raise _no_profile(path, "it has no event of a kernel")
    return {name: statistics.median(seconds) for name, seconds in runs.items()}


def _is_kernel(event: Any) -> bool:
    return isinstance(event, dict) and str(event.get("name", "")).endswith(_SUFFIX)


def _take(runs: dict[str, list[float]], event: Mapping[str, Any], place: int, path: Path) -> None:
    name = event.get("name")
    if not isinstance(name, str) or not name.endswith(_SUFFIX):
        return
    took = event.get("dur")
    if not isinstance(took, int | float) or isinstance(took, bool) or not 0 <= took < _MAX_S * 1e6:
        raise _no_profile(path, f"event {place} takes {quote(str(took))} microseconds")
    runs.setdefault(name.removesuffix(_SUFFIX), []).append(took * 1e-6)


def _no_profile(path: Path, why: str) -> CompileError:
    return CompileError.of(
        "MCM-D077", f"the file is no profile of onnxruntime: {why}", at=str(path)
    )


OPTION = "--profile"

OpSeconds = Mapping[str, float]
"""Seconds by the name of an op."""

_TO_QUOTE = re.compile(r'[",\r\n]')


def refuse_contradictions(
    target: BoxTarget, times: Mapping[str, OpSeconds], cost_models: Mapping[str, str]
) -> None:
    """Checks the kinds that profiles are of, before anything is read.

    Args:
        target: the box.
        times: of profiles, by kind.
        cost_models: text forms that were asked for, by kind.

    Raises:
        CompileError: MCM-D070 for kinds that the box does not have, MCM-U002 for one that has a
            profile and a cost model.
    """
    place = device_costs.option_place(OPTION)
    faults = device_costs.unknown_kinds(target.box, times, place)
    faults += [
        Diagnostic(
            "MCM-U002",
            f"{quote(kind)} has a profile, and the cost model {quote(cost_models[kind])}",
            at=place(kind),
            hint=f"leave {OPTION} or --cost-model out for this kind; a table of the latter may "
            "hold the times of the former",
        )
        for kind in times
        if kind in cost_models
    ]
    CompileError.raise_any(faults)


def with_profiles(target: BoxTarget, times: Mapping[str, OpSeconds], graph: ir.Graph) -> BoxTarget:
    """The box with tables of measured times for kinds of its devices.

    Args:
        target: the box.
        times: seconds by kind and by name of op; names that the graph does not have are left out.
        graph: what is placed.

    Raises:
        CompileError: MCM-D078 where the graph has none of the names, MCM-C003 for a box that takes
            no cost models, and MCM-C005 for times that are none.
    """
    names = {node.name or "" for node in graph} - {""}
    for kind, seconds in times.items():
        rows = {name: took for name, took in seconds.items() if name in names}
        if not rows:
            raise foreign_profile(kind, seconds)
        file = f"times.{kind}.csv"
        target = device_costs.with_device_costs(
            target,
            {kind: f"table{{file={print_value(file)}}}"},
            held_files({file: table_of(rows)}),
            device_costs.option_place(OPTION),
        )
    return target


def table_of(seconds: OpSeconds) -> bytes:
    """The file of the cost model `table` that has these times by name of op, sorted by name."""
    lines = ["node,seconds"]
    for name, took in sorted(seconds.items()):
        quoted = '"' + name.replace('"', '""') + '"'
        lines.append(f"{quoted if _TO_QUOTE.search(name) else name},{float(took)!r}")
    # The reader of the table refuses names that are no Unicode text.
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")


def foreign_profile(kind: str, seconds: OpSeconds) -> CompileError:
    """MCM-D078: a profile has no op that devices of the kind run."""
    some = next(iter(seconds), "")
    return CompileError.of(
        "MCM-D078",
        f"none of {len(seconds):,} measured ops, such as {quote(some)}, is one that "
        f"devices of kind {quote(kind)} run",
        at=device_costs.option_place(OPTION)(kind),
    )


def measured_notes(
    target: BoxTarget, problem: StepProblem, model: ir.Model, times: Mapping[str, OpSeconds]
) -> list[Diagnostic]:
    """MCM-D079 for each kind of device with measured times: of how many ops they are.

    Args:
        target: the box, with its cost models.
        problem: the step, in this box.
        model: that the step was made from.
        times: of profiles, by kind.

    Raises:
        CompileError: MCM-C006 and MCM-C005 as `MeasuredCosts.name_faults`, MCM-D078 for a profile
            none of whose ops such devices run.
    """
    notes: list[Diagnostic] = []
    if not isinstance(target, TakesDeviceCosts):
        return notes
    ops = frozenset(node.name or "" for node in model.graph)
    source = SOURCE.find(model)
    given = source.original.graph if source is not None else ()
    names = ModelNames(ops, frozenset(node.name or "" for node in given) - ops, {})
    nodes = {node.name: node for node in model.graph}
    for k, kind in enumerate(target.box.kinds):
        costs = target.device_costs(kind)
        measured = measured_costs(costs)
        if measured is None:
            continue
        CompileError.raise_any(measured.name_faults(names))
        column = problem.time_s[:, k]
        run = np.flatnonzero(np.isfinite(column) & runs_of(problem)).tolist()
        asked = [(op, node) for op in run if (node := nodes.get(problem.names[op])) is not None]
        measured_ops = [op for op, node in asked if _measured_ops(costs, node)]
        known = len(measured_ops)
        if not known and kind in times:
            raise foreign_profile(kind, times[kind])
        others = int(((column > 0) & np.isfinite(column)).sum()) - known
        found = CostCoverage(
            len(run), known, float(column[run].sum()), float(column[measured_ops].sum())
        )
        usual = "a profile names every op where graph optimisations were off"
        notes.append(
            Diagnostic(
                "MCM-D079",
                f"{known:,} ops have times that were measured on {quote(kind)}, "
                f"{percent_text(found.share)} of its seconds; what is computed or takes no time "
                f"are {max(others, 0):,} others",
                at=f"cost model of {quote(kind)}",
                hint=found.hint
                or (usual if known else "no row is about an op that such devices run"),
                severity=found.severity,
            )
        )
    return notes


def _measured_ops(costs: CostModel, node: ir.Node) -> int:
    """Without asking again for what the times of the step came from."""
    if isinstance(costs, ChosenCosts):
        return costs.measured_ops(node)
    return costs.node_cost(node).measured_ops
