"""The proof: chips against a model, and a model against another form of it.

The values of the chips, one chip after the other over the wires.

How an op of a chip differs from the op of the model that it says it comes from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import onnx_ir as ir

from mcm_compiler.contracts.chips import ORIGIN_PROPERTY, chips_in_dataflow_order
from mcm_compiler.contracts.target import HOST, ChipModel, Wire
from mcm_compiler.contracts.verification import StructureProof, UnprovenOp
from mcm_compiler.diagnostics import quote
from mcm_compiler.equivalence.round_classes import RoundClasses
from mcm_compiler.equivalence.values.constant_values import evaluate_pending
from mcm_compiler.equivalence.values.followed_passes import MAX_CONSTANT_BYTES, PLANNED
from mcm_compiler.equivalence.values.graph_walk import GraphWalk, Numbers
from mcm_compiler.equivalence.values.own_identities import OwnIdentities
from mcm_compiler.equivalence.values.source_values import SourceValues, input_numbers, number_source
from mcm_compiler.equivalence.values.value_numbers import OpKey, ValueNumbers, domain_of
from mcm_compiler.equivalence.values.weight_contents import WeightContents
from mcm_compiler.graph.rounds import class_names

if TYPE_CHECKING:
    from mcm_compiler.equivalence.parts.planned_parts import PlannedParts


def prove_chips(
    source: ir.Model,
    chips: Sequence[ChipModel],
    wires: Sequence[Wire],
    classes: int = 1,
    *,
    placeholders: bool,
    unfollowed_passes: Sequence[str] = (),
    contents: WeightContents | None = None,
    max_constant_bytes: int = MAX_CONSTANT_BYTES,
) -> StructureProof:
    """Holds every op of the chips against the model.

    In a round the inputs of every class have the values of the model's. An op of one class then
    makes of the inputs of that class what its value stands for. So an op that reads inputs of two
    classes is unproven, and so is an output of a class that another one decides.

    Args:
        source: the model, with its shapes.
        chips: used chips, in any order.
        wires: all tensors that travel.
        classes: of inferences in a round.
        placeholders: whether `ConstantOfShape` stands for weights that are known by name alone.
        unfollowed_passes: passes that may have changed ops in ways that no rule covers.
        contents: of weights, where they were looked at before.
        max_constant_bytes: operands and results of ops on constants that are computed.

    Raises:
        CompileError: MCM-V068 where functions expand beyond all bounds.
    """
    numbers, identities = ValueNumbers(contents, max_constant_bytes), OwnIdentities(classes)
    values = number_source(numbers, source, identities, placeholders=placeholders)
    planned = not PLANNED.isdisjoint(unfollowed_passes)
    of_classes = RoundClasses(chips, wires) if classes > 1 else None
    found = number_chips(
        numbers,
        values,
        chips,
        wires,
        identities,
        classes=classes,
        placeholders=placeholders,
        planned=planned,
    )
    outputs = [
        own
        for name, number in values.outputs
        for own in class_names(name, classes)
        if found.outputs.get(own) != number
    ]
    # Wrong ops first: they are told, and those that have no rule are not.
    unproven = sorted(found.unproven, key=lambda op: (op.chip, op.node) in found.excused)
    if of_classes is not None:
        outputs += of_classes.foreign_outputs()
        mixed = {(op.chip, op.node): op for op in of_classes.mixed}
        unproven = [*mixed.values(), *(o for o in unproven if (o.chip, o.node) not in mixed)]
    wrong = len(found.excused) < len(unproven) or not unproven
    unfollowed = tuple(unfollowed_passes)
    if planned and wrong and PLANNED.issuperset(unfollowed_passes):
        unfollowed = ()
    runs = None
    if of_classes is not None and not unproven and not outputs:
        runs = of_classes.runs(found.made)
    return StructureProof(
        found.ops,
        tuple(unproven),
        tuple(dict.fromkeys(outputs)),
        unfollowed,
        reordered=found.reordered,
        runs=runs,
    )


MAX_ROUNDS = 4
"""Walks over the chips, while ops on constants that only they have turn out to be computable."""

Place = tuple[int, str]


@dataclass(eq=False)
class ChipValues:
    """Values that were found.

    Attributes:
        ops: how many ops that are no constants the chips run.
        unproven: those that are not the model's; after the first on a path the others are simulated
            as if it were.
        outputs: number of what arrives at the host, by name.
        excused: those of the unproven ops, by chip and name, of which no rule says how they are
            divided.
        reordered: whether a part of an op may add in another order.
        made: number of what each op makes, before it is known for a value of the model.
    """

    ops: int = 0
    unproven: list[UnprovenOp] = field(default_factory=list[UnprovenOp])
    outputs: dict[str, int] = field(default_factory=dict[str, int])
    excused: set[Place] = field(default_factory=set[Place])
    reordered: bool = False
    made: dict[ir.Node, int] = field(default_factory=dict[ir.Node, int])


def number_chips(
    numbers: ValueNumbers,
    source: SourceValues,
    chips: Sequence[ChipModel],
    wires: Sequence[Wire],
    identities: OwnIdentities,
    *,
    classes: int = 1,
    placeholders: bool,
    planned: bool = False,
) -> ChipValues:
    """Numbers the chips' values and holds them against those of the model.

    Args:
        numbers: the table, with the model in it.
        source: the model.
        chips: used chips, in any order.
        wires: all tensors that travel.
        identities: of ops that are like no other.
        classes: of a round; what the host gives to each has the model's values.
        placeholders: whether `ConstantOfShape` stands for weights.
        planned: whether a plan may have divided ops.
    """
    divided = planned or any(wire.part is not None for wire in wires) or _joins(source, chips)

    def walked(assumed: frozenset[Place], *, in_parts: bool = divided) -> _Chain:
        parts = None
        if in_parts:
            from mcm_compiler.equivalence.parts.planned_parts import PlannedParts

            parts = PlannedParts(numbers, source)
        chain = _Chain(numbers, source, wires, identities, placeholders, assumed, parts)
        chain.run(chips, given)
        return chain

    given = {
        own: number
        for name, number in input_numbers(source.model, numbers).items()
        for own in class_names(name, classes)
    }
    chain = walked(frozenset())
    for _ in range(MAX_ROUNDS):
        if not numbers.pending or not evaluate_pending(numbers):
            break
        chain = walked(frozenset())
    open_ops = chain.open_ops()
    if open_ops and not divided:
        by_parts = walked(frozenset(), in_parts=True)
        if not by_parts.open_ops():
            return by_parts.result()
    if open_ops:
        chain = walked(open_ops)
    return chain.result()


def _joins(source: SourceValues, chips: Sequence[ChipModel]) -> bool:
    """Return whether chips say that they put together what one op of the model computes."""
    for chip in chips:
        for node in chip.model.graph:
            if node.op_type == "Concat":
                origin = source.nodes.get(node.metadata_props.get(ORIGIN_PROPERTY, ""))
                if origin is not None and origin.op_type != "Concat":
                    return True
    return False


class _Chain:
    """One walk over all chips.

    Args:
        assumed: ops whose results are taken for those of the op that they say they come from, so
            that what follows them can be simulated.
        parts: of what a plan divided.
    """

    def __init__(
        self,
        numbers: ValueNumbers,
        source: SourceValues,
        wires: Sequence[Wire],
        identities: OwnIdentities,
        placeholders: bool,
        assumed: frozenset[Place],
        parts: PlannedParts | None,
    ) -> None:
        self._numbers = numbers
        self._source = source
        self._wires = wires
        self._identities = identities
        self._placeholders = placeholders
        self._assumed = assumed
        self._parts = parts
        self._arrived: dict[tuple[int, str], int] = {}
        self._open: dict[Place, tuple[ir.Node, tuple[int, ...], str]] = {}
        self._made: dict[ir.Node, int] = {}

    def run(self, chips: Sequence[ChipModel], given: dict[str, int]) -> None:
        """See the class."""
        self._identities.begin_chips()
        if self._parts is not None:
            given = given | self._cut(given, self._parts)
        self._deliver(HOST, given)
        for chip in chips_in_dataflow_order(chips, self._wires):
            graph = chip.model.graph
            known: Numbers = {}
            for value in graph.inputs:
                arrived = self._arrived.get((chip.chip, value.name or ""))
                if arrived is not None:
                    known[value] = arrived
                elif value.const_value is None:
                    known[value] = self._numbers.unknown()
            walk = GraphWalk(
                self._numbers, chip.model, self._identities, placeholders=self._placeholders
            )
            walk.run(known, lambda node, k, chip=chip.chip: self._judge(chip, node, k))
            sent = {v.name or "": known[v] for v in graph.outputs if v in known}
            self._deliver(chip.chip, sent)
        if self._parts is not None:
            self._join(self._parts)

    def _cut(self, given: dict[str, int], parts: PlannedParts) -> dict[str, int]:
        """The pieces that the host takes inputs apart into."""
        from mcm_compiler.equivalence.parts.host_joins import cut_models

        cut: dict[str, int] = {}
        for model in cut_models(self._wires, self._source.model.opset_imports):
            known = {v: given[v.name] for v in model.graph.inputs if v.name in given}
            GraphWalk(self._numbers, model, self._identities).run(known, parts.explains)
            cut |= {value.name or "": known[value] for value in model.graph.outputs}
        return cut

    def _join(self, parts: PlannedParts) -> None:
        """Puts together at the host what leaves in pieces."""
        from mcm_compiler.equivalence.parts.host_joins import join_models

        for model in join_models(self._wires, self._source.model.opset_imports):
            arrived = [self._arrived.get((HOST, v.name or "")) for v in model.graph.inputs]
            known: Numbers = {
                value: self._numbers.unknown() if number is None else number
                for value, number in zip(model.graph.inputs, arrived, strict=True)
            }
            GraphWalk(self._numbers, model, self._identities).run(known, parts.explains)
            for value in model.graph.outputs:
                self._arrived[HOST, value.name or ""] = known[value]

    def open_ops(self) -> frozenset[Place]:
        """Ops that no rule explains."""
        explained = self._parts.explained if self._parts is not None else frozenset[int]()
        return frozenset(
            place
            for place, (_, outputs, _) in self._open.items()
            if not all(number in explained for number in outputs)
        )

    def result(self) -> ChipValues:
        """Values that were found."""
        found = ChipValues(len(self._made), made=self._made)
        found.reordered = self._parts is not None and self._parts.reordered
        still = self.open_ops() | (self._assumed & self._open.keys())
        for place, (node, outputs, what) in self._open.items():
            if place in still:
                if self._parts is not None and self._parts.excused.issuperset(outputs):
                    found.excused.add(place)
                origin = node.metadata_props.get(ORIGIN_PROPERTY, "")
                found.unproven.append(
                    UnprovenOp(place[0], node.name or "", node.op_type, origin, what)
                )
        found.outputs = {
            name: number for (chip, name), number in self._arrived.items() if chip == HOST
        }
        return found

    def _deliver(self, sender: int, sent: dict[str, int]) -> None:
        for wire in self._wires:
            if wire.source == sender and wire.tensor in sent:
                for chip in wire.destinations:
                    self._arrived[chip, wire.tensor] = sent[wire.tensor]

    def _judge(self, chip: int, node: ir.Node, known: Numbers) -> None:
        named = [value for value in node.outputs if value.name]
        outputs = tuple(known[value] for value in named)
        if all(number in self._numbers.constant for number in outputs) and outputs:
            return
        self._made[node] = outputs[0] if outputs else -1
        if all(number in self._source.names for number in outputs):
            return
        if self._parts is not None and self._parts.explains(node, known):
            return
        place = (chip, node.name or "")
        if place not in self._assumed:
            self._open[place] = (node, outputs, "")
            return
        self._open[place] = (node, outputs, difference(node, known, self._numbers, self._source))
        origin = self._source.nodes.get(node.metadata_props.get(ORIGIN_PROPERTY, ""))
        # What a plan made of an op is only part of it, if it has no name of the model.
        parts_of_origin = self._parts is not None
        same_form = origin is not None and len(origin.outputs) == len(node.outputs)
        for index, value in enumerate(node.outputs):
            own = self._source.by_name.get(value.name) if value.name else None
            if own is None and origin is not None and same_form and not parts_of_origin:
                own = self._source.known.get(origin.outputs[index])
            if value.name and own is not None:
                known[value] = own


def difference(node: ir.Node, known: Numbers, numbers: ValueNumbers, source: SourceValues) -> str:
    """First difference: type, attribute, weight or wire; in words."""
    name = node.metadata_props.get(ORIGIN_PROPERTY, "")
    origin = source.nodes.get(name)
    if origin is None:
        return "computes what no op of the model computes"
    if (domain_of(node), node.op_type) != (domain_of(origin), origin.op_type):
        return f"is a {quote(node.op_type)}, the model has a {quote(origin.op_type)}"
    own, given = _op(node, known, numbers), _op(origin, source.known, numbers)
    if own is None or given is None:
        return "is not the op of the model that it comes from"
    if own.version != given.version:
        return f"is version {own.version} of the op, the model has version {given.version}"
    ours, theirs = dict(own.attributes), dict(given.attributes)
    for attribute in sorted({*ours, *theirs}):
        if ours.get(attribute) != theirs.get(attribute):
            return (
                f"has the attribute {quote(attribute)} {_shown(node, attribute)}, "
                f"the model has {_shown(origin, attribute)}"
            )
    if own.bodies != given.bodies:
        return "has another body than the op of the model"
    for position in range(max(len(own.inputs), len(given.inputs))):
        left, right = own.reads(position), given.reads(position)
        if left != right:
            return _operand(node, origin, position, left, right, numbers)
    if own.outputs != given.outputs:
        return "has other outputs than the op of the model"
    return "is a copy of an op that draws random numbers"


def _op(node: ir.Node, known: Numbers, numbers: ValueNumbers) -> OpKey | None:
    for value in node.outputs:
        made = numbers.made_by(known[value]) if known.get(value, -1) >= 0 else None
        if made is not None:
            return made[1]
    return None


def _operand(
    node: ir.Node,
    origin: ir.Node,
    position: int,
    left: int | None,
    right: int | None,
    numbers: ValueNumbers,
) -> str:
    given = _name(origin, position)
    if left is None or right is None:
        count = "lacks" if left is None else "has"
        return f"{count} input {position}, unlike the model's"
    if left in numbers.constant and right in numbers.constant:
        return f"reads another weight than {given} of the model as input {position}"
    return (
        f"reads another value as input {position}: {_name(node, position)} is not {given} of "
        "the model"
    )


def _name(node: ir.Node, position: int) -> str:
    value = node.inputs[position] if position < len(node.inputs) else None
    return quote(value.name or "") if value is not None else "nothing"


def _shown(node: ir.Node, attribute: str) -> str:
    found = node.attributes.get(attribute)
    if found is None:
        return "of its default"
    if found.type is ir.AttributeType.TENSOR:
        return "of another tensor"
    return quote(str(found.value)[:100])
