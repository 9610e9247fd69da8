"""The proof: chips against a model, and a model against another form of it."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from mcm_compiler.contracts.target import ChipModel, Wire
from mcm_compiler.contracts.verification import StructureProof
from mcm_compiler.equivalence.chip_values import number_chips
from mcm_compiler.equivalence.round_classes import RoundClasses
from mcm_compiler.equivalence.values.followed_passes import MAX_CONSTANT_BYTES, PLANNED
from mcm_compiler.equivalence.values.own_identities import OwnIdentities
from mcm_compiler.equivalence.values.source_values import number_source
from mcm_compiler.equivalence.values.value_numbers import ValueNumbers
from mcm_compiler.equivalence.values.weight_contents import WeightContents
from mcm_compiler.graph.rounds import class_names


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
