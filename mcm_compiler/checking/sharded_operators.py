"""Whether the rows about divided operators are what the models of a folder say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnx_ir as ir

from mcm_compiler.contracts.chips import ORIGIN_PROPERTY
from mcm_compiler.contracts.target import ChipModel, Target


def sharded_faults(
    rows: Sequence[Mapping[str, Any]] | None,
    source: ir.Model,
    chips: Sequence[ChipModel],
    target: Target,
) -> Iterator[str]:
    """Compares each row with the source's weight and with the ops that come from its op.

    Args:
        rows: `sharded_operators` of a report.
        source: the annotated source model.
        chips: the chips' models.
        target: the package, which tells what weights take.
    """
    if not rows:
        return
    nodes = {node.name: node for node in source.graph}
    pieces: dict[str, set[str]] = {}
    run: dict[str, ir.Node] = {}
    for chip in chips:
        for node in chip.model.graph:
            if (origin := node.metadata_props.get(ORIGIN_PROPERTY)) is not None:
                pieces.setdefault(origin, set()).add(node.name or "")
                run[node.name or ""] = node
    storage_bytes = target.cost_model().storage_bytes
    for index, row in enumerate(rows):
        place = f"sharded_operators[{index}]"
        node = nodes.get(row["node"])
        if node is None and all(p in run for p in row["pieces"]):
            yield from _of_a_piece(place, row, [run[p] for p in row["pieces"]], nodes, target)
            continue
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


def _of_a_piece(
    place: str,
    row: Mapping[str, Any],
    pieces: Sequence[ir.Node],
    nodes: Mapping[str | None, ir.Node],
    target: Target,
) -> Iterator[str]:
    """A piece that was divided again: its pieces come from one op, and hold all of its weight."""
    (origin, *more) = {node.metadata_props.get(ORIGIN_PROPERTY, "") for node in pieces} or {""}
    if more or origin not in nodes or not row["node"].startswith(f"{origin}/"):
        yield f"{place}.node is no op of the source model, nor a piece of one"
        return
    storage_bytes = target.cost_model().storage_bytes
    own = [v for node in pieces for v in node.inputs if v is not None]
    given = sum(storage_bytes(v) for v in own if (v.name or "").startswith(f"{row['weight']}/"))
    if row["weight_bytes"] != given:
        yield f"{place}.weight_bytes is {row['weight_bytes']}, the pieces have {given}"
