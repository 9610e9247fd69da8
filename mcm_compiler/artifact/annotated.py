"""`annotated.onnx`: the source model with every op's chip, group and cost, for Netron and tools.

Placement stands in ONNX's multi-device fields (IR version 11 or newer): a model configuration
with one device per chip, and the chip of each node as its pipeline stage. What has no standard
field is in `metadata_props` under `mcm.*`. The file is the complete source model: its weights
refer to the chips' data files, so that nothing large is stored twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import onnx
import onnx_ir as ir

from mcm_compiler.artifact import layout
from mcm_compiler.contracts.chips import (
    CHIP_PROPERTY,
    GROUP_PROPERTY,
    ORIGIN_PROPERTY,
    PLANNED_PROPERTY,
    RUNS_ON_HOST,
    RUNS_ON_PROPERTY,
)
from mcm_compiler.contracts.cost import NODE_COST
from mcm_compiler.contracts.partition import CHIP
from mcm_compiler.contracts.replication import REPLICATION, Replication
from mcm_compiler.contracts.sharding.sharding import APPLIED_PLAN, SHARDING_PLAN, DividedTensor
from mcm_compiler.contracts.sharding.specs import shard_value
from mcm_compiler.graph.constants import placeable_nodes
from mcm_compiler.graph.source import SourceModel
from mcm_compiler.ir.rewriting.device_stages import (
    MULTI_DEVICE_IR_VERSION,
    free_name,
    stage_on_host,
)
from mcm_compiler.ir.rewriting.writer import DataLocation, write_with_data

COST_PROPERTY = "mcm.cost_s"
REMOVED_PROPERTY = "mcm.removed"
REPLICAS_PROPERTY = "mcm.replicas"
CHIPS_EACH_PROPERTY = "mcm.chips_each"


@dataclass
class _Placement:
    chips: set[int] = field(default_factory=set[int])
    group: str | None = None
    seconds: float | None = None
    on_host: bool = False


def write_annotated(
    source: SourceModel,
    compiled: ir.Model,
    num_chips: int,
    folder: Path,
    shared: dict[int, DataLocation],
) -> None:
    """Writes `annotated.onnx` and, for weights that no chip stores as they are, its data file.

    Args:
        source: the model as given.
        compiled: the legalised graph, whose nodes carry `CHIP` and their origin, with
            `REPLICATION` where pipelines share the package.
        num_chips: chips of the package.
        folder: where to write.
        shared: where the chips' data files hold which tensors (by `id`).
    """
    placements = _placements(compiled)
    replication = REPLICATION.find(compiled) or Replication(1, num_chips)
    model = source.original.clone()
    model.ir_version = max(model.ir_version, MULTI_DEVICE_IR_VERSION)
    configuration = model.add_device_configuration(
        free_name("mcm", [c.name for c in model.device_configurations]),
        device_names=[f"chip_{chip}" for chip in range(num_chips)],
    )
    placeable = {node.name for node in placeable_nodes(model.graph)}
    for node in model.graph:
        node.metadata_props.pop(RUNS_ON_PROPERTY, None)  # of an earlier compile
        placement = placements.get(node.name or "")
        if placement is None or not placement.chips:
            if node.name in placeable:
                node.metadata_props[REMOVED_PROPERTY] = "true"
            continue
        places = replication.places(placement.chips)
        node.metadata_props[CHIP_PROPERTY] = ",".join(map(str, places))
        if placement.group is not None:
            node.metadata_props[GROUP_PROPERTY] = placement.group
        if placement.seconds is not None:
            node.metadata_props[COST_PROPERTY] = repr(placement.seconds)
        node.set_pipeline_stage(configuration, min(placement.chips))
        if placement.on_host:
            node.metadata_props[RUNS_ON_PROPERTY] = RUNS_ON_HOST
    stage_on_host(model)
    if replication.replicas > 1:
        model.metadata_props[REPLICAS_PROPERTY] = str(replication.replicas)
        model.metadata_props[CHIPS_EACH_PROPERTY] = str(replication.chips_each)
    if APPLIED_PLAN.present(compiled):
        model.metadata_props[PLANNED_PROPERTY] = "true"
    _add_shardings(model, configuration, divided_tensors(compiled), placements, replication)
    path = folder / layout.ANNOTATED
    write_with_data(model, path, layout.ANNOTATED_DATA, shared)
    _read_back(path, configuration.name)


def divided_tensors(compiled: ir.Model) -> list[DividedTensor]:
    """What shards have parts of, by a user's plan and because it fits no chip."""
    applied, plan = APPLIED_PLAN.find(compiled), SHARDING_PLAN.find(compiled)
    return [
        *(applied.tensors if applied is not None else ()),
        *(
            DividedTensor(o.node, o.weight, o.axis, len(o.pieces))
            for o in (plan.operators if plan is not None else ())
        ),
    ]


def _add_shardings(
    model: ir.Model,
    configuration: ir.ModelConfiguration,
    tensors: Iterable[DividedTensor],
    placements: Mapping[str, _Placement],
    replication: Replication,
) -> None:
    """ONNX's `ShardingSpec` on each op of the source model that has a divided tensor.

    Its devices are the chips that run the op's shards, in all pipelines; several may share a chip.
    """
    nodes = {node.name: node for node in model.graph}
    for divided in tensors:
        node = nodes.get(divided.node)
        if node is None:
            continue
        of_node = {v.name: v for v in (*node.inputs, *node.outputs) if v is not None}
        value = of_node.get(divided.tensor)
        if value is not None and not node.sharding_of(value):
            placed = placements.get(divided.node)
            devices = replication.places(placed.chips) if placed is not None else ()
            shard_value(
                node,
                value,
                configuration,
                axis=divided.axis,
                num_shards=divided.shards,
                runs=divided.runs,
                device_indices=devices,
            )


def _placements(compiled: ir.Model) -> dict[str, _Placement]:
    placements: dict[str, _Placement] = defaultdict(_Placement)
    for node in compiled.graph:
        origin = node.metadata_props.get(ORIGIN_PROPERTY)
        chip = CHIP.find(node)
        if origin is None or chip is None:
            continue
        placement = placements[origin]
        placement.chips.add(chip)
        group = node.metadata_props.get(GROUP_PROPERTY)
        placement.group = placement.group or group
        placement.on_host |= node.metadata_props.get(RUNS_ON_PROPERTY) == RUNS_ON_HOST
        if (cost := NODE_COST.find(node)) is not None:
            placement.seconds = (placement.seconds or 0.0) + cost.seconds
    return placements


def _read_back(path: Path, configuration: str) -> None:
    """Serialisers drop the multi-device fields below IR version 11 without an error."""
    proto = onnx.load(path, load_external_data=False)
    named = any(c.name == configuration for c in proto.configuration)
    staged = any(node.device_configurations for node in proto.graph.node)
    if not named or not staged:
        raise RuntimeError("the multi-device fields of annotated.onnx were lost in writing")
