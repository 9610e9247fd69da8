"""The classes of a round: which inputs of the host each op of the chips depends on.

It follows from the chips' graphs and the wires alone, and knows nothing of how a graph is unrolled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from mcm_compiler.contracts.chips import ORIGIN_PROPERTY, chips_in_dataflow_order
from mcm_compiler.contracts.target import HOST, ChipModel, Wire
from mcm_compiler.contracts.verification import ClassRuns, UnprovenOp
from mcm_compiler.graph.constants import consumed_values, is_deterministic
from mcm_compiler.graph.dimensions import free_inputs
from mcm_compiler.graph.rounds import class_name, class_of

Place = tuple[int, str]

_NONE: frozenset[int] = frozenset()


class RoundClasses:
    """The classes whose inputs each op depends on; one that draws is of the class in its name, too.

    Args:
        chips: used chips, in any order.
        wires: all tensors that travel.

    Attributes:
        sent: classes of what the chips give away, by chip and tensor.
        mixed: ops of several classes.
        of: classes of each op.
    """

    def __init__(self, chips: Sequence[ChipModel], wires: Sequence[Wire]) -> None:
        self._wires = wires
        self.sent: dict[Place, frozenset[int]] = {}
        self.mixed: list[UnprovenOp] = []
        self.of: dict[ir.Node, frozenset[int]] = {}
        sources = {(w.tensor, c): w.source for w in wires for c in w.destinations}
        for chip in chips_in_dataflow_order(chips, wires):
            known: dict[ir.Value, frozenset[int]] = {}
            for value in chip.model.graph.inputs:
                name = value.name or ""
                source = sources.get((name, chip.chip), HOST)
                known[value] = _named(name) if source == HOST else self._of_sent(source, name)
            for node in chip.model.graph:
                read = [known[value] for value in consumed_values(node) if value in known]
                found = _NONE.union(*read)
                if not is_deterministic(node):
                    found |= _named(node.name or "")
                self.of[node] = found
                known.update(dict.fromkeys(node.outputs, found))
                if len(found) > 1:
                    origin = node.metadata_props.get(ORIGIN_PROPERTY, "")
                    what = f"reads inputs of the classes {', '.join(map(str, sorted(found)))}"
                    mixed = UnprovenOp(chip.chip, node.name or "", node.op_type, origin, what)
                    self.mixed.append(mixed)
            for value in chip.model.graph.outputs:
                self.sent[chip.chip, value.name or ""] = known.get(value, _NONE)

    def foreign_outputs(self) -> list[str]:
        """Outputs of a class that another one decides."""
        return [
            name
            for wire in self._wires
            if HOST in wire.destinations
            for name in [wire.part.graph_output if wire.part else wire.tensor]
            if not self._of_sent(wire.source, wire.tensor) <= _named(name)
        ]

    def runs(self, made: Mapping[ir.Node, int]) -> ClassRuns:
        """The first classes that have each op of a round between them.

        Args:
            made: number of what each op makes.
        """
        numbers: dict[int, set[int]] = {}
        for node, number in made.items():
            for index in self.of[node]:
                numbers.setdefault(index, set()).add(number)
        known: set[int] = set()
        taken: list[int] = []
        for index in sorted(numbers):
            if not numbers[index] <= known:
                taken.append(index)
                known |= numbers[index]
        tensors = {
            (wire.source, wire.tensor)
            for wire in self._wires
            if self._of_sent(wire.source, wire.tensor).issubset(taken)
        }
        return ClassRuns(tuple(taken), frozenset(tensors))

    def _of_sent(self, sender: int, tensor: str) -> frozenset[int]:
        return _named(tensor) if sender == HOST else self.sent.get((sender, tensor), _NONE)


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


def _named(name: str) -> frozenset[int]:
    found = class_of(name)
    return _NONE if found is None else frozenset((found[1],))
