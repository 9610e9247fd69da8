"""Whether the chips of an output folder obey the rules of their package."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from mcm_compiler.artifact.manifest import Manifest
from mcm_compiler.contracts.target import HOST, ChipModel, Target, Wire, other_machine_of
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.machines.equal_shares import shares_alike
from mcm_compiler.placements.machine_rules import find_machine_violations, unreached_by_host
from mcm_compiler.placements.ring_rules import find_violations


def check_constraints(manifest: Manifest, chips: Sequence[ChipModel], target: Target) -> str:
    """Checks the graph of all chips, whose edges between chips are the wires.

    Clones and relays are in that graph already, so that the paper's rule (MCM, Eq. 2 to 4) has to
    hold as it stands, whatever routing the model was compiled with.

    Args:
        manifest: says which tensors travel.
        chips: the chips' models.
        target: the package.

    Returns:
        A summary.

    Raises:
        CompileError: MCM-V050, one diagnostic per violation.
    """
    refuse_overlap(manifest, target)
    chip_of, names, edges = _dependencies(manifest.wires, chips)
    pairs = np.array(edges, dtype=np.int32).reshape(-1, 2)
    placed = np.array(chip_of, dtype=np.int32)
    source, reader = np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
    devices, machine = target.limits.num_chips, other_machine_of(target)
    if machine is None:
        routers = target.limits.forwarding == "router"
        routing = manifest.routing if routers else "strict"
        violations = find_violations(
            placed, source, reader, num_chips=devices, routing=routing, names=names
        )
    else:
        entering = [
            (c, w.tensor) for w in manifest.wires if w.source == HOST for c in w.destinations
        ]
        leaving = [(w.source, w.tensor) for w in manifest.wires if HOST in w.destinations]
        violations = unreached_by_host(
            machine,
            [(c, tensor) for c, tensor in entering if c != HOST],
            [(c, tensor) for c, tensor in leaving if c != HOST],
        )
        violations += find_machine_violations(placed, source, reader, machine, devices, names)
    if violations:
        raise CompileError(
            [
                Diagnostic("MCM-V050", v.message, at=f"chips {', '.join(map(str, v.chips))}")
                for v in violations
            ]
        )
    text = f"acyclic, no chip skipped, {manifest.routing} routing"
    if machine is not None:
        text = f"acyclic, with a route for every tensor of {len(chips)} devices"
    return text if manifest.replicas == 1 else f"{text}, {manifest.replicas} pipelines side by side"


def refuse_overlap(manifest: Manifest, target: Target) -> None:
    """Checks that pipelines side by side have chips of their own, and that all are alike.

    Raises:
        CompileError: MCM-V050.
    """
    limits, each = target.limits, manifest.chips_each
    if manifest.replicas == 1:
        return
    fault = ""
    machine = other_machine_of(target)
    if manifest.replicas * each > limits.num_chips:
        have = f"{quote(target.name)} has {limits.num_chips}"
        fault = f"take {manifest.replicas * each} chips, {have}"
    elif any(entry.chip >= each for entry in manifest.chips):
        fault = f"have {each} chips each, and a model is there for a chip beyond"
    elif machine is not None and not shares_alike(machine, each, manifest.replicas):
        fault = f"need shares that are alike, and those of {quote(target.name)} differ"
    elif len(set(limits.sram_bytes)) > 1 or len(set(limits.chip_speed)) > 1:
        fault = f"need equal chips, and those of {quote(target.name)} differ"
    if fault:
        message = f"{manifest.replicas} pipelines side by side {fault}"
        raise CompileError(Diagnostic("MCM-V050", message, at="replicas in manifest.json"))


def _dependencies(
    wires: Sequence[Wire], chips: Sequence[ChipModel]
) -> tuple[list[int], list[str], list[tuple[int, int]]]:
    """Chip and name of each node that sends or reads a tensor, and the edges between chips.

    A chip without such nodes still counts as used, by the first of its nodes.
    """
    chip_of: list[int] = []
    names: list[str] = []
    index: dict[tuple[int, str], int] = {}

    def node_on(chip: int, name: str) -> int:
        found = index.setdefault((chip, name), len(chip_of))
        if found == len(chip_of):
            chip_of.append(chip)
            names.append(name)
        return found

    made: dict[tuple[int, str], ir.Value] = {}
    taken: dict[tuple[int, str], ir.Value] = {}
    for chip in chips:
        graph = chip.model.graph
        first = next(iter(graph), None)
        node_on(chip.chip, (first.name if first is not None else None) or f"chip {chip.chip}")
        made |= {(chip.chip, value.name or ""): value for value in graph.outputs}
        taken |= {(chip.chip, value.name or ""): value for value in graph.inputs}
    edges: list[tuple[int, int]] = []
    for wire in wires:
        for chip in wire.destinations:
            if HOST in (wire.source, chip):
                continue
            value = made.get((wire.source, wire.tensor))
            sender = value.producer() if value is not None else None
            value = taken.get((chip, wire.tensor))
            readers = value.consumers() if value is not None else ()
            source = (sender.name if sender is not None else None) or wire.tensor
            reader = (readers[0].name if readers else None) or wire.tensor
            edges.append((node_on(wire.source, source), node_on(chip, reader)))
    return chip_of, names, edges
