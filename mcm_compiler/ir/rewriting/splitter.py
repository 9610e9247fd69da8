"""Cutting a placed graph into one complete ONNX model per chip, with the wires between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import onnx_ir as ir

from mcm_compiler.contracts.chips import CHIP_PROPERTY, OWN_PROPERTIES
from mcm_compiler.contracts.partition import RELAY
from mcm_compiler.contracts.sharding.sharding import OUTPUT_PARTS
from mcm_compiler.contracts.target import HOST, ChipModel, ChipState, Wire
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.graph.annotations import AnnotationKey
from mcm_compiler.graph.constants import constant_values, consumed_values
from mcm_compiler.graph.states import StatePair, States
from mcm_compiler.graph.static_shapes import shape_for_copy
from mcm_compiler.ir.rewriting.node_copying import copy_node


def split(
    model: ir.Model, chip: AnnotationKey[int], states: States | None = None
) -> tuple[tuple[ChipModel, ...], tuple[Wire, ...]]:
    """The models of all used chips, ascending, and the wires in order of first use.

    Each chip's model holds its ops in graph order, and a copy of the constant nodes and
    initializers that they need; tensors are shared, never copied. What a subgraph captures from
    outside is an input or an initializer of the chip's model like any other. A graph output that
    is an initializer comes from the first chip; one that is a graph input stays with the host, as
    a wire from `HOST` to `HOST`. `model` is not changed.

    Args:
        model: a legal graph in topological order.
        chip: the chip of each op; an op without it is constant, or dead.
        states: those that stay on their chips: inputs and outputs of a chip's model to which no
            wire leads, and from which none leads to the host.

    Raises:
        CompileError: MCM-P012, one diagnostic per value without a type that crosses a boundary.
        ValueError: if a state is on several chips; a fault of the partition.
    """
    plan = _Plan(model, chip, states or States(()))
    plan.check_types()
    return tuple(plan.chip_model(c) for c in plan.chips), plan.wires()


class _Plan:
    """Makers, readers and senders of each value."""

    def __init__(self, model: ir.Model, chip: AnnotationKey[int], states: States) -> None:
        self._model = model
        self._graph = model.graph
        self._relays = {node for node in model.graph if RELAY.find(node)}
        self._constants = constant_values(model.graph, without=self._relays)
        self._position = {node: i for i, node in enumerate(model.graph)}
        self._members: dict[int, list[ir.Node]] = {}
        self._home: dict[ir.Value, int] = {}
        for node in model.graph:
            where = chip.find(node)
            if where is None:
                continue
            self._members.setdefault(where, []).append(node)
            for value in node.outputs:
                self._home[value] = where
        self._stored_outputs = [
            value
            for value in dict.fromkeys(model.graph.outputs)
            if value not in self._home and value in self._constants
        ]
        if self._stored_outputs and not self._members:
            self._members[0] = []
        self.chips = sorted(self._members)
        self._host_outputs = [
            value for value in dict.fromkeys(model.graph.outputs) if value in self._home
        ]
        self._destinations = self._readers()
        self._arriving: dict[int, list[ir.Value]] = {c: [] for c in self.chips}
        self._leaving: dict[int, dict[ir.Value, None]] = {c: {} for c in self.chips}
        for value, chips in self._destinations.items():
            if value in self._home:
                self._leaving[self._home[value]][value] = None
            for c in sorted(chips):
                self._arriving[c].append(value)
        for value in self._host_outputs:
            self._leaving[self._home[value]][value] = None
        for value in self._stored_outputs:
            self._leaving[self.chips[0]][value] = None

        self._parts = OUTPUT_PARTS.find(model) or {}
        self._sequences = states.sequences
        self._states = self._homes_of(states.pairs)

    def _homes_of(self, states: Sequence[StatePair]) -> dict[StatePair, int]:
        """The chip of each state."""
        inputs = {value.name: value for value in self._graph.inputs}
        outputs = {value.name: value for value in self._graph.outputs}
        homes: dict[StatePair, int] = {}
        for pair in states:
            home = self._home[outputs[pair.present]]
            if self._destinations.get(inputs[pair.past]) != {home}:
                raise ValueError(f"the state '{pair.past}' is not on the chip of its present")
            homes[pair] = home
        return homes

    def _held(self, pair: StatePair, home: int) -> ChipState:
        past, present = self._parts.get(pair.past), self._parts.get(pair.present)
        places = (past, present) if past is not None and present is not None else None
        return ChipState(pair.past, pair.present, home, places)

    def _readers(self) -> dict[ir.Value, set[int]]:
        """Chips that read each value from elsewhere, in order of first use."""
        chip_of = {node: c for c, nodes in self._members.items() for node in nodes}
        readers: dict[ir.Value, set[int]] = {}
        for node in self._graph:
            if node not in chip_of:
                continue
            for value in consumed_values(node):
                constant = value in self._constants and node not in self._relays
                if not constant and self._home.get(value, HOST) != chip_of[node]:
                    readers.setdefault(value, set()).add(chip_of[node])
        return readers

    def check_types(self) -> None:
        """Raises MCM-P012 where a value that crosses a boundary has no type."""
        crossing = [*self._destinations, *self._host_outputs, *self._stored_outputs]
        faults = [
            Diagnostic(
                "MCM-P012",
                f"value {quote(value.name or '')} crosses a chip's boundary and has no type",
                at=f"node {quote(producer.name or '')} of type {quote(producer.op_type)}"
                if (producer := value.producer()) is not None
                else "graph inputs",
            )
            for value in dict.fromkeys(crossing)
            if value.type is None
        ]
        CompileError.raise_any(faults)

    def wires(self) -> tuple[Wire, ...]:
        pasts = {pair.past for pair in self._states}
        presents = {pair.present for pair in self._states}
        parts = self._parts
        wires = [
            Wire(value.name or "", source, tuple(sorted(chips)), place)
            for value, chips in self._destinations.items()
            if value.name not in pasts
            for source in [self._home.get(value, HOST)]
            for place in [parts.get(value.name or "") if source == HOST else None]
        ]
        for value in dict.fromkeys(self._graph.outputs):
            name = value.name or ""
            if name in presents:
                continue
            if value in self._home:
                wires.append(Wire(name, self._home[value], (HOST,), parts.get(name)))
            elif value in self._constants:
                wires.append(Wire(value.name or "", self.chips[0], (HOST,)))
            else:
                wires.append(Wire(value.name or "", HOST, (HOST,)))
        return tuple(wires)

    def chip_model(self, chip: int) -> ChipModel:
        nodes, initializers = self._with_constants(
            chip, self._stored_outputs if chip == self.chips[0] else ()
        )
        value_of = {value: _fresh(value) for value in self._arriving[chip]}
        inputs = list(value_of.values())
        stored = [_fresh(value, keep_tensor=True) for value in initializers]
        value_of.update(zip(initializers, stored, strict=True))
        copies: list[ir.Node] = []
        for node in nodes:
            copy = copy_node(node, value_of, node.name or "")
            copy.metadata_props[CHIP_PROPERTY] = str(chip)
            value_of.update(zip(node.outputs, copy.outputs, strict=True))
            copies.append(copy)
        outputs = [value_of[value] for value in self._leaving[chip]]
        for value, own in zip(self._leaving[chip], outputs, strict=True):
            own.metadata_props.update(value.metadata_props)
        source = self._model
        graph = ir.Graph(
            inputs,
            outputs,
            nodes=copies,
            initializers=stored,
            opset_imports=dict(self._graph.opset_imports),
            name=self._graph.name or "graph",
            doc_string=self._graph.doc_string,
            metadata_props=_of_user(self._graph.metadata_props),
        )
        part = ir.Model(
            graph,
            ir_version=source.ir_version,
            producer_name=source.producer_name,
            producer_version=source.producer_version,
            domain=source.domain,
            model_version=source.model_version,
            doc_string=source.doc_string,
            metadata_props=_of_user(source.metadata_props),
            functions=list(source.functions.values()),
        )
        return ChipModel(
            chip,
            part,
            tuple(value.name or "" for value in inputs),
            tuple(value.name or "" for value in outputs),
            tuple(self._held(pair, home) for pair, home in self._states.items() if home == chip),
            self._sequences,
        )

    def _with_constants(
        self, chip: int, stored_outputs: Iterable[ir.Value]
    ) -> tuple[list[ir.Node], list[ir.Value]]:
        """The ops of a chip with the constant nodes that they need, and its initializers."""
        members = self._members[chip]
        nodes = dict.fromkeys(members)
        initializers: dict[ir.Value, None] = {}
        wanted = [v for node in members for v in consumed_values(node) if v in self._constants]
        wanted += stored_outputs
        # What arrives for a relay is there for others too.
        seen = set(self._arriving[chip])
        while wanted:
            value = wanted.pop()
            if value in seen:
                continue
            seen.add(value)
            producer = value.producer()
            if producer is None:
                initializers[value] = None
            elif producer not in nodes:
                nodes[producer] = None
                wanted += consumed_values(producer)
        in_order = sorted(nodes, key=self._position.__getitem__)
        by_name = sorted(initializers, key=lambda value: value.name or "")
        return in_order, by_name


def _of_user(properties: Mapping[str, str]) -> dict[str, str]:
    """Those that do not say how an earlier compile placed the whole model."""
    return {k: v for k, v in properties.items() if not k.startswith(OWN_PROPERTIES)}


def _fresh(value: ir.Value, *, keep_tensor: bool = False) -> ir.Value:
    return ir.Value(
        name=value.name,
        doc_string=value.doc_string,
        metadata_props=dict(value.metadata_props),
        type=value.type,
        shape=shape_for_copy(value.shape),
        const_value=value.const_value if keep_tensor else None,
    )
