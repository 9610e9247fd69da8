"""Where the times of ops come from, and the widths that chips store types in."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

import onnx_ir as ir

from mcm_compiler.components.cost_choice import choice_of
from mcm_compiler.components.cost_files import coverage, kernels_of_graphs, measured_costs
from mcm_compiler.contracts.target import Target, cost_model_on
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
    return {"ops": found.ops, "measured_ops": found.measured_ops, "measured_share": share}


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
    return f"{chosen['model']}: {found['measured_ops']} of {ops}, {share} of the seconds measured"


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
