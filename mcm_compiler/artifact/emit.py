"""Writing a compiled model into a staging folder.

`annotated.onnx` is the source model with every op's chip, group and cost, for Netron and tools.
Placement stands in ONNX's multi-device fields (IR version 11 or newer): a model configuration
with one device per chip, and the chip of each node as its pipeline stage. What has no standard
field is in `metadata_props` under `mcm.*`. The file is the complete source model: its weights
refer to the chips' data files, so that nothing large is stored twice.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import onnx
import onnx_ir as ir

from mcm_compiler.artifact import layout
from mcm_compiler.artifact.layout import sha256_file
from mcm_compiler.artifact.manifest import (
    ChipEntry,
    Counted,
    FolderStates,
    Manifest,
    TensorEntry,
    WeightEntry,
    write_manifest,
)
from mcm_compiler.components.cost_choice import choice_of
from mcm_compiler.contracts.chips import (
    CHIP_PROPERTY,
    GROUP_PROPERTY,
    ORIGIN_PROPERTY,
    PLANNED_PROPERTY,
    RUNS_ON_HOST,
    RUNS_ON_PROPERTY,
    states_of,
)
from mcm_compiler.contracts.cost import NODE_COST
from mcm_compiler.contracts.partition import CHIP
from mcm_compiler.contracts.program import LoweredProgram
from mcm_compiler.contracts.replication import REPLICATION, Replication
from mcm_compiler.contracts.sharding import sharding
from mcm_compiler.contracts.target import HOST, ChipModel, Target, Wire
from mcm_compiler.equivalence.values.followed_passes import unfollowed_passes
from mcm_compiler.graph import constants, dimensions, limits, trip_counts
from mcm_compiler.graph.constants import placeable_nodes
from mcm_compiler.graph.source import SourceModel
from mcm_compiler.ir.rewriting import device_stages, writer
from mcm_compiler.options import CompileOptions
from mcm_compiler.text import json_text


def write_chips(
    folder: Path,
    source: SourceModel,
    compiled: ir.Model,
    chips: tuple[ChipModel, ...],
    target: Target,
    program: LoweredProgram | None,
) -> None:
    """Writes chip models, the annotated model, the target with its files, and the program.

    Where a level has divided ops, or in a round, a weight of several chips is written once.
    """
    places: dict[int, writer.DataLocation] = {}
    data = _data_files(chips, REPLICATION.find(compiled))
    with writer.kept_whole():
        for name, (_, tensors) in data.items():
            places |= writer.write_data(tensors, folder / name)
        for chip in chips:
            path, own = folder / layout.chip_file(chip.chip), layout.chip_data_file(chip.chip)
            written = writer.write_with_data(chip.model, path, own, places if data else None)
            places = written | places
        write_annotated(source, compiled, target.limits.num_chips, folder, places)
    (folder / layout.TARGET).write_bytes(target.source_text.encode())
    if (choice := choice_of(target)) is not None:
        for name, content in choice.stored.items():
            (folder / name).write_bytes(content)
    if program is not None:
        json_text.write(folder / layout.PROGRAM, program.to_dict())


def _data_files(
    chips: tuple[ChipModel, ...], replication: Replication | None
) -> dict[str, tuple[tuple[int, ...], list[ir.TensorProtocol]]]:
    """Of a round or a divided model, files of weights: which chips need each, and its tensors."""
    if replication is None or (replication.round == 1 and not replication.divided):
        return {}
    holders: dict[int, tuple[ir.TensorProtocol, dict[int, None]]] = {}
    for chip in chips:
        for tensor in writer.large_tensors(chip.model):
            holders.setdefault(id(tensor), (tensor, {}))[1][chip.chip] = None
    of_chips: dict[tuple[int, ...], list[ir.TensorProtocol]] = {}
    for tensor, held in holders.values():
        of_chips.setdefault(tuple(held), []).append(tensor)
    files: dict[str, tuple[tuple[int, ...], list[ir.TensorProtocol]]] = {}
    shared = 0
    for held, tensors in of_chips.items():
        alone = len(held) == 1
        name = layout.chip_data_file(held[0]) if alone else layout.shared_data_file(shared)
        shared += not alone
        files[name] = (held, tensors)
    return files


def folder_manifest(
    source: SourceModel,
    chips: tuple[ChipModel, ...],
    wires: tuple[Wire, ...],
    target: Target,
    options: CompileOptions,
    pipeline: str,
    replication: Replication | None = None,
) -> Manifest:
    """The manifest of a folder that is being made, without its files."""
    data = _data_files(chips, replication)
    return Manifest(
        model=Path(source.name).name if source.path is not None else source.name,
        model_sha256=source.sha256,
        target=target.name,
        target_sha256=hashlib.sha256(target.source_text.encode()).hexdigest(),
        routing=options.routing,
        seed=options.seed,
        shape_only=source.shape_only,
        inputs=input_entries(source),
        outputs=tuple(map(tensor_entry, source.original.graph.outputs)),
        wires=wires,
        chips=tuple(
            replace(
                chip_entry(chip, wires),
                shared_data=tuple(
                    name for name, (held, _) in data.items() if len(held) > 1 and chip.chip in held
                ),
            )
            for chip in chips
        ),
        files={},
        replicas=replication.replicas if replication else 1,
        chips_each=replication.chips_each if replication else target.limits.num_chips,
        pipeline=pipeline,
        unfollowed_passes=unfollowed_passes(options.passes),
        dims=dict(sorted(options.dims.items())),
        shapes={name: tuple(shape) for name, shape in sorted(source.shapes.items())},
        counted=Counted(
            trip_counts.stated_counts(source.original.graph),
            options.inferences,
            round=replication.round if replication else 1,
        ),
        states=_folder_states(chips, options),
    )


def finish_folder(folder: Path, manifest: Manifest) -> None:
    """Writes the manifest with the hashes of all files that are in `folder` by now."""
    names = sorted(path.name for path in folder.iterdir())
    with ThreadPoolExecutor(max_workers=2) as pool:
        hashes = list(pool.map(sha256_file, [folder / name for name in names]))
    write_manifest(replace(manifest, files=dict(zip(names, hashes, strict=True))), folder)


def _folder_states(chips: tuple[ChipModel, ...], options: CompileOptions) -> FolderStates:
    held = states_of(chips)
    if not held:
        return FolderStates()
    return FolderStates(held, max(chip.sequences for chip in chips), options.sequences or 1)


def input_entries(source: SourceModel) -> tuple[TensorEntry, ...]:
    """Names, types and shapes of the inputs that a run of the model needs."""
    return tuple(map(tensor_entry, dimensions.free_inputs(source.original)))


def chip_entry(chip: ChipModel, wires: tuple[Wire, ...]) -> ChipEntry:
    """Manifest entry of a chip's model and of the wires to and from it."""
    arriving = {w.tensor: w.source for w in wires if chip.chip in w.destinations}
    leaving: dict[str, list[int]] = {}
    for wire in wires:
        if wire.source == chip.chip:
            leaving.setdefault(wire.tensor, []).extend(wire.destinations)
    for pair in chip.states:
        arriving[pair.past] = chip.chip
        leaving.setdefault(pair.present, []).append(chip.chip)
    graph = chip.model.graph
    return ChipEntry(
        chip=chip.chip,
        file=layout.chip_file(chip.chip),
        inputs=chip.inputs,
        outputs=chip.outputs,
        receives=tuple((name, arriving.get(name, HOST)) for name in chip.inputs),
        sends=tuple((name, to) for name in chip.outputs for to in leaving.get(name, [])),
        weights=tuple(
            WeightEntry(
                v.name or "",
                v.const_value.nbytes if v.const_value is not None else limits.known_bytes(v),
            )
            for v in (
                *graph.initializers.data.values(),
                *(weight for node in graph for weight in constants.attribute_weights(node)),
            )
        ),
        order=tuple(node.name or "" for node in graph),
        shared_data=_other_files(chip),
    )


def _other_files(chip: ChipModel) -> tuple[str, ...]:
    """Of a chip's model that was read from a folder, the files of weights that are not its own."""
    tensors = [value.const_value for value in writer.initializers_of(chip.model)]
    files = {str(tensor.location) for tensor in tensors if isinstance(tensor, ir.ExternalTensor)}
    return tuple(sorted(files - {layout.chip_data_file(chip.chip)}))


def tensor_entry(value: ir.Value) -> TensorEntry:
    """Manifest entry of a graph input or output."""
    if isinstance(value.type, ir.TensorType):
        dtype = value.type.dtype.name.lower()
    else:
        dtype = str(value.type)
    static = value.shape is not None and value.shape.is_static()
    shape = tuple(int(dim) for dim in value.shape.numpy()) if static and value.shape else None
    if static and shape is None:
        shape = ()
    return TensorEntry(value.name or "", dtype, shape)


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
    shared: dict[int, writer.DataLocation],
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
    writer.write_with_data(source.original, path, layout.ANNOTATED_DATA, shared, amend)


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
