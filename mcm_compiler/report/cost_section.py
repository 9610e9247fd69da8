"""What the report says of a cost model that was chosen by name."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import onnx_ir as ir

from mcm_compiler.components.cost_choice import choice_of
from mcm_compiler.components.cost_files import coverage, kernels_of_graphs, measured_costs
from mcm_compiler.contracts.target import Target
from mcm_compiler.text.units import count_text, percent_text

if TYPE_CHECKING:
    from mcm_compiler.report.records.report import CostChoice, CoverageFacts

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
    target: Target, graphs: Sequence[ir.Graph], added: Collection[str]
) -> CoverageFacts | None:
    """How much of the chips' ops was measured; None where all of it is computed.

    Args:
        target: the package.
        graphs: of the chips of one pipeline, in order.
        added: names of copies and relays, which are not counted.
    """
    costs = target.cost_model()
    if measured_costs(costs) is None:
        return None
    found = coverage(costs, kernels_of_graphs(graphs, added))
    return {
        "ops": found.ops,
        "measured_ops": found.measured_ops,
        "measured_share": found.share,
    }


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
