"""Check whether the chips of an output folder obey the rules of their package."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import onnx_ir as ir

from mcm_compiler.artifact.manifest import Manifest
from mcm_compiler.contracts.chips import is_relay
from mcm_compiler.contracts.partition import Ints
from mcm_compiler.contracts.target import HOST, ChipModel, Target, Wire, machine_of
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.machines.machine_builder import shares_alike
from mcm_compiler.placements.machine_rules import find_machine_violations, unreached_by_host
from mcm_compiler.placements.ring_rules import find_violations


def check_constraints(manifest: Manifest, chips: Sequence[ChipModel], target: Target) -> str:
    """Checks the graph of all chips, whose edges between chips are the wires.

    Clones and relays are in that graph already, so that the paper's rule (MCM, Eq. 2 to 4) has to
    hold as it stands where long dependencies are relayed. Under the strict rule relays carry what
    the host sends and collects, which is no dependency of an op on another: an op depends on the
    one that made what relays brought.

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
    sent, strict = _SentTensors(manifest.wires, chips), manifest.routing == "strict"
    source, reader = _arrays(sent.edges())
    between_ops = _arrays(sent.edges_without_relays()) if strict else None
    placed, names = np.array(sent.chip_of, dtype=np.int32), sent.names
    devices, machine = target.limits.num_chips, machine_of(target)
    if machine.is_ring:
        routers = target.limits.forwarding == "router"
        rules = partial(find_violations, placed, num_chips=devices, names=names)
        violations = rules(source, reader, routing="relay" if routers or strict else "strict")
        if between_ops is not None and not violations:
            violations = rules(*between_ops, routing="strict")
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
    if not machine.is_ring:
        text = f"acyclic, with a route for every tensor of {len(chips)} devices"
    return text if manifest.replicas == 1 else f"{text}, {manifest.replicas} replicas"


def refuse_overlap(manifest: Manifest, target: Target) -> None:
    """Checks that pipelines side by side have chips of their own, and that all are alike.

    Raises:
        CompileError: MCM-V050.
    """
    limits, each = target.limits, manifest.chips_each
    if manifest.replicas == 1:
        return
    fault = ""
    machine = machine_of(target)
    if manifest.replicas * each > limits.num_chips:
        have = f"{quote(target.name)} has {limits.num_chips}"
        fault = f"take {manifest.replicas * each} chips, {have}"
    elif any(entry.chip >= each for entry in manifest.chips):
        fault = f"have {each} chips each, and a model is there for a chip beyond"
    elif not shares_alike(machine, each, manifest.replicas):
        fault = f"need shares that are alike, and those of {quote(target.name)} differ"
    elif len(set(limits.sram_bytes)) > 1 or len(set(limits.chip_speed)) > 1:
        fault = f"need equal chips, and those of {quote(target.name)} differ"
    if fault:
        message = f"{manifest.replicas} replicas {fault}"
        raise CompileError.of("MCM-V050", message, at="replicas in manifest.json")


def _arrays(edges: list[tuple[int, int]]) -> tuple[Ints, Ints]:
    pairs = np.array(edges, dtype=np.int32).reshape(-1, 2)
    return np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])


class _SentTensors:
    """The nodes that send or read tensors of other chips, and the edges between them.

    A chip without such nodes still counts as used, by the first of its nodes.

    Attributes:
        chip_of: chip of each node.
        names: name of each node.
    """

    def __init__(self, wires: Sequence[Wire], chips: Sequence[ChipModel]) -> None:
        self.chip_of: list[int] = []
        self.names: list[str] = []
        self._index: dict[tuple[int, str], int] = {}
        self._made: dict[tuple[int, str], ir.Value] = {}
        self._taken: dict[tuple[int, str], ir.Value] = {}
        self._arrivals = [
            (chip, wire.tensor, wire.source)
            for wire in wires
            for chip in wire.destinations
            if HOST not in (wire.source, chip)
        ]
        self._sender = {(chip, tensor): sender for chip, tensor, sender in self._arrivals}
        for chip in chips:
            graph = chip.model.graph
            first = next(iter(graph), None)
            self._node(chip.chip, first.name if first is not None else None)
            self._made |= {(chip.chip, value.name or ""): value for value in graph.outputs}
            self._taken |= {(chip.chip, value.name or ""): value for value in graph.inputs}

    def edges(self) -> list[tuple[int, int]]:
        """An edge for each tensor and chip that it arrives on."""
        found: list[tuple[int, int]] = []
        for chip, tensor, sender in self._arrivals:
            node, readers = self._producer(sender, tensor), self._readers(chip, tensor)
            source = self._node(sender, node.name if node is not None else tensor)
            found.append((source, self._node(chip, readers[0].name if readers else tensor)))
        return found

    def edges_without_relays(self) -> list[tuple[int, int]]:
        """Edges from the nodes that made what arrives, over relays, to those that use it."""
        found: list[tuple[int, int]] = []
        for chip, tensor in self._sender:
            reader = next((r for r in self._readers(chip, tensor) if not is_relay(r)), None)
            if reader is not None and (source := self._maker(chip, tensor)) is not None:
                found.append((source, self._node(chip, reader.name or tensor)))
        return found

    def _maker(self, chip: int, tensor: str) -> int | None:
        """The node that made what arrives on a chip as `tensor`; None where the host did."""
        sender = self._sender.get((chip, tensor))
        # What relays pass on comes from lower chips; a wire to its own chip would lead on for ever.
        while sender is not None and sender < chip:
            node = self._producer(sender, tensor)
            if node is None or not is_relay(node) or (passed := node.inputs[0]) is None:
                return self._node(sender, node.name if node is not None else tensor)
            if (maker := passed.producer()) is not None:
                return self._node(sender, maker.name)
            chip, tensor = sender, passed.name or ""
            sender = self._sender.get((chip, tensor))
        return None

    def _producer(self, chip: int, tensor: str) -> ir.Node | None:
        value = self._made.get((chip, tensor))
        return value.producer() if value is not None else None

    def _readers(self, chip: int, tensor: str) -> Sequence[ir.Node]:
        value = self._taken.get((chip, tensor))
        return value.consumers() if value is not None else ()

    def _node(self, chip: int, name: str | None) -> int:
        key = chip, name or f"chip {chip}"
        found = self._index.setdefault(key, len(self.chip_of))
        if found == len(self.chip_of):
            self.chip_of.append(chip)
            self.names.append(key[1])
        return found
