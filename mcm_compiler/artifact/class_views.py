"""The chips of a round as each class of inferences sees them, and the proof of every class.

A view holds the ops that depend on no input of another class. Its ends at the host have the names
that the model has for them. It follows from the chips' graphs and the wires alone, and knows
nothing of how a graph is unrolled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import onnx_ir as ir

from mcm_compiler.contracts.chips import ORIGIN_PROPERTY, chips_in_dataflow_order
from mcm_compiler.contracts.sharding.sharding import OutputPart
from mcm_compiler.contracts.target import HOST, ChipModel, Wire
from mcm_compiler.contracts.verification import StructureProof, UnprovenOp
from mcm_compiler.equivalence.structure_proof import prove_chips
from mcm_compiler.equivalence.values.weight_contents import WeightContents
from mcm_compiler.graph.constants import consumed_values
from mcm_compiler.graph.dimensions import free_inputs
from mcm_compiler.graph.rounds import class_name, class_of
from mcm_compiler.ir.rewriting.node_copying import copy_node

_NONE: frozenset[int] = frozenset()


def prove_classes(
    source: ir.Model,
    chips: Sequence[ChipModel],
    wires: Sequence[Wire],
    classes: int,
    *,
    contents: WeightContents | None = None,
    **options: Any,
) -> StructureProof:
    """Compares the chips with the model, as `prove_chips`, once for each class of a round.

    An op that reads inputs of two classes is unproven, and so is an output of a class that another
    one decides.

    Raises:
        CompileError: as `prove_chips`.
    """
    if classes == 1:
        return prove_chips(source, chips, wires, contents=contents, **options)
    contents = contents or WeightContents()
    of_chips = _Classes(chips, wires)
    found = [
        prove_chips(source, *of_chips.view(index), contents=contents, **options)
        for index in range(classes)
    ]
    mixed = of_chips.mixed
    return StructureProof(
        len(mixed) + sum(one.ops for one in found),
        (*mixed, *(op for one in found for op in one.unproven)),
        tuple(class_name(name, k) for k, one in enumerate(found) for name in one.outputs),
        max((one.unfollowed_passes for one in found), key=len),
        reordered=any(one.reordered for one in found),
    )


def ends_of(source: ir.Model, classes: int) -> ir.Model:
    """A model with the inputs of every class; the source itself where there is one."""
    if classes == 1:
        return source
    inputs = [
        ir.Value(
            name=class_name(v.name or "", index), type=v.type, shape=v.shape and v.shape.copy()
        )
        for index in range(classes)
        for v in free_inputs(source)
    ]
    return ir.Model(ir.Graph(inputs, [], nodes=[]), ir_version=source.ir_version)


class _Classes:
    """The classes whose inputs each op depends on.

    Attributes:
        mixed: ops that depend on inputs of several classes; they are in no view.
    """

    def __init__(self, chips: Sequence[ChipModel], wires: Sequence[Wire]) -> None:
        self._chips = chips_in_dataflow_order(chips, wires)
        self._wires = wires
        self._of: dict[ir.Value, frozenset[int]] = {}
        self._nodes: dict[ir.Node, frozenset[int]] = {}
        self.mixed: list[UnprovenOp] = []
        sources = {(w.tensor, c): w.source for w in wires for c in w.destinations}
        sent: dict[tuple[int, str], frozenset[int]] = {}
        for chip in self._chips:
            for value in chip.model.graph.inputs:
                name = value.name or ""
                source = sources.get((name, chip.chip), HOST)
                self._of[value] = sent.get((source, name), _NONE)
                if source == HOST and (found := class_of(name)) is not None:
                    self._of[value] = frozenset((found[1],))
            for node in chip.model.graph:
                read = consumed_values(node)
                found = _NONE.union(*(self._of.get(value, _NONE) for value in read))
                self._nodes[node] = found
                self._of.update(dict.fromkeys(node.outputs, found))
                if len(found) > 1:
                    origin = node.metadata_props.get(ORIGIN_PROPERTY, "")
                    what = f"reads inputs of the classes {', '.join(map(str, sorted(found)))}"
                    mixed = UnprovenOp(chip.chip, node.name or "", node.op_type, origin, what)
                    self.mixed.append(mixed)
            for value in chip.model.graph.outputs:
                sent[chip.chip, value.name or ""] = self._of.get(value, _NONE)

    def view(self, index: int) -> tuple[list[ChipModel], list[Wire]]:
        """The chips and wires of one class."""
        taken = {wire.tensor for wire in self._wires}
        name_of: dict[str, str] = {}
        for wire in self._wires:
            own = _own_name(wire.tensor, index)
            if HOST in (wire.source, *wire.destinations) and own not in taken:
                name_of[wire.tensor] = own
        wires = [
            replace(
                wire,
                tensor=name_of.get(wire.tensor, wire.tensor),
                part=wire.part and _own_part(wire.part, index),
            )
            for wire in self._wires
        ]
        return [self._chip(chip, frozenset((index,)), name_of) for chip in self._chips], wires

    def _chip(self, chip: ChipModel, kept: frozenset[int], name_of: Mapping[str, str]) -> ChipModel:
        graph = chip.model.graph
        value_of = {
            v: ir.Value(name=v.name, type=v.type, shape=v.shape, const_value=v.const_value)
            for v in (*graph.inputs, *graph.initializers.values())
            if self._of.get(v, _NONE) <= kept
        }
        ends = list(value_of.values())
        inputs = [value_of[v] for v in graph.inputs if v in value_of]
        nodes: list[ir.Node] = []
        for node in graph:
            if self._nodes[node] <= kept:
                nodes.append(copy_node(node, value_of, node.name or ""))
                value_of.update(zip(node.outputs, nodes[-1].outputs, strict=True))
        outputs = [value_of[v] for v in graph.outputs if v in value_of]
        for value in dict.fromkeys((*ends, *outputs)):
            value.name = name_of.get(value.name or "", value.name)
        view = ir.Graph(
            inputs,
            outputs,
            nodes=nodes,
            initializers=[value_of[v] for v in graph.initializers.values() if v in value_of],
            opset_imports=dict(graph.opset_imports),
            name=graph.name,
        )
        functions = list(chip.model.functions.values())
        model = ir.Model(view, ir_version=chip.model.ir_version, functions=functions)
        ends_in, ends_out = (tuple(v.name or "" for v in ends) for ends in (inputs, outputs))
        return ChipModel(chip.chip, model, ends_in, ends_out)


def _own_name(name: str, index: int) -> str:
    found = class_of(name)
    return found[0] if found is not None and found[1] == index else name


def _own_part(part: OutputPart, index: int) -> OutputPart:
    within = part.within and _own_part(part.within, index)
    return replace(part, output=_own_name(part.output, index), within=within)
