"""Whether the rows about divided operators are what the models of a folder say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mcm_compiler.chips import ORIGIN_PROPERTY

if TYPE_CHECKING:
    from mcm_compiler.artifact.gate import OpenedFolder


def sharded_faults(rows: Sequence[Mapping[str, Any]] | None, opened: OpenedFolder) -> Iterator[str]:
    """Compares each row with the source's weight and with the ops that come from its op.

    Args:
        rows: `sharded_operators` of a report.
        opened: the folder.
    """
    if not rows:
        return
    nodes = {node.name: node for node in opened.source.graph}
    pieces: dict[str, set[str]] = {}
    for chip in opened.chips:
        for node in chip.model.graph:
            if (origin := node.metadata_props.get(ORIGIN_PROPERTY)) is not None:
                pieces.setdefault(origin, set()).add(node.name or "")
    storage_bytes = opened.target.cost_model().storage_bytes
    for index, row in enumerate(rows):
        place = f"sharded_operators[{index}]"
        node = nodes.get(row["node"])
        if node is None:
            yield f"{place}.node is no op of the source model"
            continue
        weight = next((v for v in node.inputs if v is not None and v.name == row["weight"]), None)
        if weight is None:
            yield f"{place}.weight is not read by {row['node']}"
            continue
        if row["weight_bytes"] != storage_bytes(weight):
            given = storage_bytes(weight)
            yield f"{place}.weight_bytes is {row['weight_bytes']}, the folder gives {given}"
        if weight.shape is not None and not 0 <= row["axis"] < len(weight.shape):
            yield f"{place}.axis is {row['axis']}, the weight has {len(weight.shape)}"
        if strange := [p for p in row["pieces"] if p not in pieces.get(row["node"], set())]:
            yield f"{place}.pieces names {strange[0]}, which no chip runs for {row['node']}"
        if len(set(row["pieces"])) != len(row["pieces"]) or len(row["pieces"]) < 2:
            yield f"{place}.pieces has {len(row['pieces'])} entries"
