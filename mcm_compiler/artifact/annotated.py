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
from functools import partial
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
from mcm_compiler.contracts.sharding import sharding
from mcm_compiler.graph.constants import placeable_nodes
from mcm_compiler.graph.source import SourceModel
from mcm_compiler.ir.rewriting import device_stages
from mcm_compiler.ir.rewriting.writer import DataLocation, write_with_data

COST_PROPERTY = "mcm.cost_s"
REMOVED_PROPERTY = "mcm.removed"
REPLICAS_PROPERTY = "mcm.replicas"
CHIPS_EACH_PROPERTY = "mcm.chips_each"

_OWN = frozenset(
    {CHIP_PROPERTY, GROUP_PROPERTY, COST_PROPERTY, REMOVED_PROPERTY, RUNS_ON_PROPERTY,
     REPLICAS_PROPERTY, CHIPS_EACH_PROPERTY}
)  # fmt: skip
"""Properties that say what one compile did, and nothing of another."""


@dataclass
class _Placement:
    chips: set[int] = field(default_factory=set[int])
    group: str | None = None
    seconds: float | None = None
    on_host: bool = False


_NOWHERE = _Placement()
"""Of an op that no compiled op stems from."""


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
    amend = partial(_annotate, source.original, compiled, num_chips)
    path = folder / layout.ANNOTATED
    write_with_data(source.original, path, layout.ANNOTATED_DATA, shared, amend)


def _annotate(model: ir.Model, compiled: ir.Model, num_chips: int, text: onnx.ModelProto) -> None:
    """Adds to the text of the source model what is known of its ops."""
    placements = _placements(compiled)
    replication = REPLICATION.find(compiled) or Replication(1, num_chips)
    text.ir_version = max(text.ir_version, device_stages.MULTI_DEVICE_IR_VERSION)
    configuration = _add_configuration(text, "mcm", [f"chip_{chip}" for chip in range(num_chips)])
    host: ir.ModelConfiguration | None = None
    if any(placement.on_host for placement in placements.values()):
        host = _add_configuration(text, device_stages.HOST_CONFIGURATION, [RUNS_ON_HOST])
    placeable = {node.name for node in placeable_nodes(model.graph)}
    specs = _sharding_specs(model, divided_tensors(compiled), placements, replication)
    places: dict[frozenset[int], str] = {}
    for node, op in zip(model.graph, text.graph.node, strict=True):
        placement = placements.get(node.name or "", _NOWHERE)
        if placement.chips:
            chips = frozenset(placement.chips)
            if chips not in places:
                places[chips] = ",".join(map(str, replication.places(chips)))
            _note(op, _known_of(placement, places[chips]))
        else:
            _note(op, {REMOVED_PROPERTY: "true"} if node.name in placeable else {})
        stage = min(placement.chips, default=None)
        if sharded := specs.get(node.name or ""):
            known = ir.NodeDeviceConfiguration(configuration, tuple(sharded), stage)
            op.device_configurations.append(ir.serde.serialize_node_device_configuration(known))
        elif stage is not None:
            op.device_configurations.add(configuration_id=configuration.name, pipeline_stage=stage)
        if placement.on_host and host is not None:
            op.device_configurations.add(configuration_id=host.name, pipeline_stage=0)
    noted: dict[str, str] = {}
    if replication.replicas > 1:
        noted[REPLICAS_PROPERTY] = str(replication.replicas)
        noted[CHIPS_EACH_PROPERTY] = str(replication.chips_each)
    if sharding.APPLIED_PLAN.present(compiled):
        noted[PLANNED_PROPERTY] = "true"
    _note(text, noted)


def _known_of(placement: _Placement, places: str) -> dict[str, str]:
    """Properties of a placed op, by name."""
    known = {CHIP_PROPERTY: places}
    if placement.group is not None:
        known[GROUP_PROPERTY] = placement.group
    if placement.seconds is not None:
        known[COST_PROPERTY] = repr(placement.seconds)
    if placement.on_host:
        known[RUNS_ON_PROPERTY] = RUNS_ON_HOST
    return known


def _add_configuration(
    text: onnx.ModelProto, base: str, devices: list[str]
) -> ir.ModelConfiguration:
    """Adds a configuration of these devices under a free name."""
    name = device_stages.free_name(base, [known.name for known in text.configuration])
    added = ir.ModelConfiguration(name, len(devices), tuple(devices))
    text.configuration.append(ir.serde.serialize_model_configuration(added))
    return added


def _note(owner: onnx.ModelProto | onnx.NodeProto, noted: Mapping[str, str]) -> None:
    """Sets properties, in the order of their names; those of an earlier compile are removed."""
    entries = owner.metadata_props
    known = dict(noted)
    if entries:
        known = {entry.key: entry.value for entry in entries} | known
        for key in _OWN - noted.keys():
            known.pop(key, None)
        del entries[:]
    for key in sorted(known):
        entries.add(key=key, value=known[key])


def divided_tensors(compiled: ir.Model) -> list[sharding.DividedTensor]:
    """Divided tensors, by a user's plan and because they fit no chip."""
    applied, plan = sharding.APPLIED_PLAN.find(compiled), sharding.SHARDING_PLAN.find(compiled)
    return [
        *(applied.tensors if applied is not None else ()),
        *(
            sharding.DividedTensor(o.node, o.weight, o.axis, len(o.pieces))
            for o in (plan.operators if plan is not None else ())
        ),
    ]


def _sharding_specs(
    model: ir.Model,
    tensors: Iterable[sharding.DividedTensor],
    placements: Mapping[str, _Placement],
    replication: Replication,
) -> dict[str, list[ir.ShardingSpec]]:
    """ONNX's `ShardingSpec` by op of the source model that has a divided tensor.

    Its devices are the chips that run the op's shards, in all pipelines; several may share a chip.
    """
    divided = list(tensors)
    wanted = {tensor.node for tensor in divided}
    nodes = {node.name: node for node in model.graph if node.name in wanted}
    specs: defaultdict[str, list[ir.ShardingSpec]] = defaultdict(list)
    for tensor in divided:
        node = nodes.get(tensor.node)
        if node is None:
            continue
        of_node = {v.name: v for v in (*node.inputs, *node.outputs) if v is not None}
        value = of_node.get(tensor.tensor)
        if value is None or any(spec.value is value for spec in specs[tensor.node]):
            continue
        chips = placements.get(tensor.node, _NOWHERE).chips
        specs[tensor.node].append(
            ir.ShardingSpec(
                value,
                tuple(replication.places(chips)),
                sharded_dims=(
                    sharding.sharded_dim(value, tensor.axis, tensor.shards, tensor.runs),
                ),
            )
        )
    return specs


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
