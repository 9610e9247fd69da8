"""Where the times of ops come from, and the widths that chips store types in."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import onnx_ir as ir

from mcm_compiler.components.cost_choice import choice_of
from mcm_compiler.components.cost_files import coverage, kernels_of_graphs, measured_costs
from mcm_compiler.contracts.chips import kernels_of
from mcm_compiler.contracts.cost import CostModel
from mcm_compiler.contracts.target import Target, cost_model_on, machine_of
from mcm_compiler.graph.constants import placeable_nodes
from mcm_compiler.text.units import count_text, percent_text

if TYPE_CHECKING:
    from mcm_compiler.report.records.report import CostChoice, CoverageFacts
    from mcm_compiler.report.records.verdict import StoredWidth


COST_SECTION: Final = "chosen_cost_model"
"""Name of the field; reports of compiles with the target's own model lack it."""


def cost_choice_facts(target: Target) -> CostChoice | None:
    """Text of the cost model that was chosen, and the SHA-256 of its files; None for the own."""
    choice = choice_of(target)
    if choice is None:
        return None
    files = sorted(choice.stored.items())
    return {
        "model": choice.text,
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in files},
    }


def coverage_facts(
    target: Target, graphs: Mapping[int, ir.Graph], added: Collection[str]
) -> CoverageFacts | None:
    """How much of the chips' ops was measured; None where all of it is computed.

    Args:
        target: the package.
        graphs: of the chips of one pipeline by chip; times are those of its kind.
        added: names of copies and relays, which are not counted.
    """
    if measured_costs(target.cost_model()) is None:
        return None
    chips = [(cost_model_on(target, chip), graphs[chip]) for chip in sorted(graphs)]
    found = coverage(kernels_of_graphs(chips, added))
    share = found.share
    facts: CoverageFacts = {
        "ops": found.ops,
        "measured_ops": found.measured_ops,
        "measured_share": share,
    }
    if (deviation := _period_deviation(target, chips, sorted(graphs))) > 0.0:
        facts["period_deviation"] = deviation
    return facts


def _period_deviation(
    target: Target, chips: Sequence[tuple[CostModel, ir.Graph]], numbers: Sequence[int]
) -> float:
    """Share by which the period may be off if each kernel takes as much longer as it may."""
    speed = machine_of(target).speed
    busy_s, longest_s = 0.0, 0.0
    for (model, graph), chip in zip(chips, numbers, strict=True):
        costs = [model.group_cost(nodes) for nodes in kernels_of(placeable_nodes(graph))]
        seconds = math.fsum(cost.seconds for cost in costs) / float(speed[chip])
        off_s = math.fsum(cost.deviation_s for cost in costs) / float(speed[chip])
        busy_s, longest_s = max(busy_s, seconds), max(longest_s, seconds + off_s)
    return longest_s / busy_s - 1.0 if busy_s else 0.0


def cost_model_phrase(report: Mapping[str, Any]) -> str | None:
    """The cost model that was chosen, and how much it measured; None where none was."""
    chosen = report.get(COST_SECTION)
    if chosen is None:
        return None
    found = chosen.get("coverage")
    if found is None:
        return str(chosen["model"])
    share = percent_text(found["measured_share"])
    ops = count_text(found["ops"], "op")
    text = f"{chosen['model']}: {found['measured_ops']} of {ops}, {share} of the seconds measured"
    off = found.get("period_deviation")
    if off is None:
        return text
    return f"{text}; the period may be off by {percent_text(off)} (repeat and calibration errors)"


STORAGE_SECTION: Final = "stored_widths"
"""Name of the field; reports of earlier releases lack it."""

_PROBE = 8192
"""Elements of a value whose bytes are asked for: whole bytes in every width."""


def stored_widths(graph: ir.Graph, target: Target) -> list[StoredWidth]:
    """Types of values of a graph that the target stores in another width than ONNX, by name."""
    values = [*graph.inputs, *graph.initializers.values()]
    values += [value for node in graph for value in node.outputs]
    types = {value.dtype for value in values if value.dtype is not None}
    costs = target.cost_model()
    rows: list[StoredWidth] = []
    for dtype in sorted(types, key=lambda one: one.name):
        if dtype in (ir.DataType.UNDEFINED, ir.DataType.STRING):
            continue
        probe = ir.Value(type=ir.TensorType(dtype), shape=ir.Shape((_PROBE,)))
        stored = 8.0 * costs.storage_bytes(probe) / _PROBE
        if stored != dtype.bitwidth:
            name = dtype.name.lower()
            rows.append({"type": name, "file_bits": dtype.bitwidth, "stored_bits": stored})
    return rows
