"""Check whether chips and wires of an output folder fit together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError

from mcm_compiler.artifact import layout
from mcm_compiler.artifact.chain import faults_of_parts, in_pieces
from mcm_compiler.artifact.emit import chip_entry, tensor_entry
from mcm_compiler.artifact.manifest import ChipEntry, FolderStates, Manifest, damaged
from mcm_compiler.contracts.target import HOST, ChipModel
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.equivalence.values.followed_passes import pass_names
from mcm_compiler.graph.dimensions import free_inputs
from mcm_compiler.graph.map_types import model_from_proto
from mcm_compiler.graph.states import misfit
from mcm_compiler.graph.structure import check_structure as check_graph
from mcm_compiler.ir.reading.external_data import check_tensors
from mcm_compiler.text.units import count_text

if TYPE_CHECKING:
    from mcm_compiler.checking.entry.gate import OpenedFolder


def check_states(
    manifest: Manifest,
    starts: Mapping[int, Mapping[str, ir.Value]],
    ends: Mapping[int, Mapping[str, ir.Value]],
) -> list[Diagnostic]:
    """MCM-A014 for states that are on no chip, on several, or cross the host's link as well.

    Args:
        manifest: lists the states.
        starts: outputs of each chip's model by name.
        ends: its inputs.
    """
    held = manifest.states.held
    pasts = Counter(state.past for state in held)
    presents = Counter(state.present for state in held)
    entering = {wire.tensor for wire in manifest.wires if wire.source == HOST}
    leaving = {wire.tensor for wire in manifest.wires if HOST in wire.destinations}
    model_inputs = {entry.name for entry in manifest.inputs}
    model_outputs = {entry.name for entry in manifest.outputs}
    faults: list[Diagnostic] = []
    for state in held:
        past = ends.get(state.chip, {}).get(state.past)
        present = starts.get(state.chip, {}).get(state.present)
        if past is None or present is None:
            why = f"the chip has no {quote(state.past if past is None else state.present)}"
        elif state.whole.past not in model_inputs or state.whole.present not in model_outputs:
            why = "it is none of the model's"
        elif pasts[state.past] > 1 or presents[state.present] > 1:
            why = "it is held twice"
        elif any(state.past in values for chip, values in ends.items() if chip != state.chip):
            why = "another chip takes it as well"
        elif state.past in entering or state.present in leaving:
            why = "it crosses the host's link as well"
        else:
            why = misfit(past, present)
        if why is not None:
            place = f"chip {state.chip}"
            message = f"the state {quote(state.past)} does not stay on {place}: {why}"
            faults.append(Diagnostic("MCM-A014", message, at=place))
    if not held and manifest.states != FolderStates():
        faults.append(
            Diagnostic(
                "MCM-A014",
                f"there are {manifest.states.sequences} sequences in flight, with memory "
                f"for {manifest.states.reserved}, and no state",
                at="states in manifest.json",
            )
        )
    return faults


def load_chips(folder: Path, manifest: Manifest) -> tuple[ChipModel, ...]:
    """The chips' models with their weights memory-mapped.

    Raises:
        CompileError: MCM-A005 for a file that is not a model, MCM-I### for faults in it.
    """
    return tuple(
        ChipModel(
            chip.chip,
            load_part(folder, chip.file),
            chip.inputs,
            chip.outputs,
            manifest.states.of_chip(chip.chip),
            manifest.states.sequences,
        )
        for chip in manifest.chips
    )


def check_structure(opened: OpenedFolder) -> str:
    """Checks each chip's file against the manifest, and both ends of each wire.

    Returns:
        A summary.

    Raises:
        CompileError: MCM-A010 where a chip's file is not what the manifest says, MCM-A011 for a
            wire without a matching end, MCM-A005 and MCM-I### from reading.
    """
    folder, manifest = opened.path, opened.manifest
    indices = [chip.chip for chip in manifest.chips]
    if indices != sorted(set(indices)) or not indices or indices[0] < 0:
        raise damaged(folder / layout.MANIFEST, "chips are not in ascending order")
    if unknown := set(manifest.unfollowed_passes) - pass_names(manifest.pipeline):
        name = quote(min(unknown))
        raise damaged(folder / layout.MANIFEST, f"its pipeline has no pass {name} without rules")
    faults = [
        Diagnostic(
            "MCM-A010",
            f"the {what} in the manifest are not those of {quote(layout.ANNOTATED)}",
            at=layout.MANIFEST,
        )
        for what in other_ends(manifest, opened.source)
    ]
    ends: dict[int, dict[str, ir.Value]] = {}
    starts: dict[int, dict[str, ir.Value]] = {}
    found: list[ChipEntry] = []
    for chip in opened.chips:
        graph = chip.model.graph
        ends[chip.chip] = {v.name or "": v for v in graph.inputs}
        starts[chip.chip] = {v.name or "": v for v in graph.outputs}
        own = replace(chip, inputs=tuple(ends[chip.chip]), outputs=tuple(starts[chip.chip]))
        found.append(chip_entry(own, manifest.wires))
    for entry, own in zip(manifest.chips, found, strict=True):
        faults += _check_chip(entry, own, ("inputs", "outputs", "weights", "order"), manifest.chips)
    CompileError.raise_any(faults)  # wires that do not fit would say the same once more
    if faults := [*check_states(manifest, starts, ends), *_check_wires(manifest, starts, ends)]:
        raise CompileError(faults)
    for entry, own in zip(manifest.chips, found, strict=True):
        faults += _check_chip(
            entry, own, ("file", "receives", "sends", "shared_data"), manifest.chips
        )
    CompileError.raise_any(faults)
    held = len(manifest.states.held)
    states = f", {count_text(held, 'state')} on their chips" if held else ""
    chips = count_text(len(manifest.chips), "chip")
    return f"{chips}, {count_text(len(manifest.wires), 'wire')}{states}"


def _check_wires(
    manifest: Manifest,
    starts: Mapping[int, Mapping[str, ir.Value]],
    ends: Mapping[int, Mapping[str, ir.Value]],
) -> list[Diagnostic]:
    """MCM-A011 for wires that fit no output or input, and for inputs that no wire leads to.

    Args:
        manifest: lists the wires.
        starts: outputs of each chip's model by name.
        ends: its inputs.
    """
    outputs, inputs = map(manifest.of_classes, (manifest.outputs, manifest.inputs))
    wires = manifest.run_wires
    faults = [
        _loose(tensor, HOST, what)
        for tensor, what in (
            *faults_of_parts(outputs, wires, starts),
            *faults_of_parts(inputs, wires, ends, inputs=True),
        )
    ]
    host_inputs = in_pieces(inputs, wires, inputs=True)
    host_outputs = in_pieces(outputs, wires)
    delivered: set[tuple[int, str]] = set()
    for wire in wires:
        have = host_inputs if wire.source == HOST else starts.get(wire.source, {}).keys()
        if wire.tensor not in have:
            faults.append(_loose(wire.tensor, wire.source, "does not send it"))
        for chip in wire.destinations:
            want = host_outputs if chip == HOST else ends.get(chip, {}).keys()
            if wire.tensor not in want:
                faults.append(_loose(wire.tensor, chip, "does not take it"))
            if (chip, wire.tensor) in delivered:
                faults.append(_loose(wire.tensor, chip, "gets it twice"))
            delivered.add((chip, wire.tensor))
            left = starts.get(wire.source, {}).get(wire.tensor)
            right = ends.get(chip, {}).get(wire.tensor)
            if left is None or right is None:
                continue
            if (left.type, left.shape) != (right.type, right.shape):
                faults.append(_loose(wire.tensor, chip, f"takes {right}, the sender has {left}"))
    wanted = {(chip, name) for chip, values in ends.items() for name in values}
    wanted |= {(HOST, name) for name in host_outputs}
    faults += [_loose(name, chip, "never gets it") for chip, name in sorted(wanted - delivered)]
    return faults


def load_part(folder: Path, name: str) -> ir.Model:
    """A model of the folder with its weights memory-mapped.

    Raises:
        CompileError: MCM-A005 for a file that is no model, MCM-I### for faults in it.
    """
    path = folder / name
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(path.read_bytes())
        faults = check_graph(proto.graph) + check_tensors(proto, path)
        model = model_from_proto(proto)
    except (OSError, DecodeError) as error:
        raise damaged(path, "it is not an ONNX model") from error
    except Exception as error:  # deserialisation raises many types on malformed fields
        raise damaged(path, " ".join(str(error).split())[:300]) from error
    CompileError.raise_any(faults)
    ir.external_data.set_base_dir(model.graph, folder)
    return model


def _check_chip(
    entry: ChipEntry, found: ChipEntry, parts: Sequence[str], others: Sequence[ChipEntry]
) -> list[Diagnostic]:
    """MCM-A010 for a chip whose model is not the one of its entry.

    Args:
        entry: what the manifest says.
        found: what it would say of the model in the chip's file.
        parts: the fields to compare.
        others: all entries of the manifest.
    """
    wrong = [part for part in parts if getattr(entry, part) != getattr(found, part)]
    if not wrong:
        return []
    listed = " and ".join(filter(None, [", ".join(wrong[:-1]), wrong[-1]]))
    message = f"the {listed} of {quote(entry.file)} differ from the manifest"
    same = [o for o in others if (o.inputs, o.order) == (found.inputs, found.order)]
    if same and entry not in same:
        message += f"; it holds the model of chip {same[0].chip}"
    return [Diagnostic("MCM-A010", message, at=f"chip {entry.chip}")]


def other_ends(manifest: Manifest, source: ir.Model) -> list[str]:
    """Which of inputs and outputs the manifest lists otherwise than the source has them."""
    ends = {
        "inputs": (manifest.inputs, free_inputs(source)),
        "outputs": (manifest.outputs, source.graph.outputs),
    }
    return [what for what, (said, own) in ends.items() if said != tuple(map(tensor_entry, own))]


def _loose(tensor: str, chip: int, what: str) -> Diagnostic:
    where = "the host" if chip == HOST else f"chip {chip}"
    return Diagnostic("MCM-A011", f"wire {quote(tensor)}: {where} {what}", at=where)
