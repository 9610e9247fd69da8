"""Writing a compiled model into a staging folder."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import onnx_ir as ir

from mcm_compiler.artifact import layout
from mcm_compiler.artifact.annotated import write_annotated
from mcm_compiler.artifact.manifest import (
    ChipEntry,
    Counted,
    FolderStates,
    Manifest,
    TensorEntry,
    WeightEntry,
    sha256_file,
    write_manifest,
)
from mcm_compiler.components.cost_choice import choice_of
from mcm_compiler.contracts.chips import states_of
from mcm_compiler.contracts.program import LoweredProgram
from mcm_compiler.contracts.replication import REPLICATION, Replication
from mcm_compiler.contracts.target import HOST, ChipModel, Target, Wire
from mcm_compiler.equivalence.values.followed_passes import unfollowed_passes
from mcm_compiler.graph import constants, dimensions, limits, trip_counts
from mcm_compiler.graph.source import SourceModel
from mcm_compiler.ir.rewriting.writer import (
    DataLocation,
    initializers_of,
    kept_whole,
    large_tensors,
    write_data,
    write_with_data,
)
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
    places: dict[int, DataLocation] = {}
    data = _data_files(chips, REPLICATION.find(compiled))
    with kept_whole():
        for name, (_, tensors) in data.items():
            places |= write_data(tensors, folder / name)
        for chip in chips:
            path, own = folder / layout.chip_file(chip.chip), layout.chip_data_file(chip.chip)
            written = write_with_data(chip.model, path, own, places if data else None)
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
        for tensor in large_tensors(chip.model):
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
    tensors = [value.const_value for value in initializers_of(chip.model)]
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
