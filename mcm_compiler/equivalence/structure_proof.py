"""The proof: chips against a model, and a model against another form of it."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from mcm_compiler.equivalence.chip_values import number_chips
from mcm_compiler.equivalence.followed_passes import MAX_CONSTANT_BYTES
from mcm_compiler.equivalence.own_identities import OwnIdentities
from mcm_compiler.equivalence.source_values import number_source
from mcm_compiler.equivalence.value_numbers import ValueNumbers
from mcm_compiler.equivalence.weight_contents import WeightContents
from mcm_compiler.target import ChipModel, Wire
from mcm_compiler.verification import StructureProof


def prove_chips(
    source: ir.Model,
    chips: Sequence[ChipModel],
    wires: Sequence[Wire],
    *,
    placeholders: bool,
    unfollowed_passes: Sequence[str] = (),
    contents: WeightContents | None = None,
    max_constant_bytes: int = MAX_CONSTANT_BYTES,
) -> StructureProof:
    """Holds every op of the chips against the model.

    Args:
        source: the model, with its shapes.
        chips: in the order in which they run.
        wires: all tensors that travel.
        placeholders: whether `ConstantOfShape` stands for weights that are known by name alone.
        unfollowed_passes: passes that may have changed ops in ways that no rule covers.
        contents: of weights, where they were looked at before.
        max_constant_bytes: operands and results of ops on constants that are computed.

    Raises:
        CompileError: MCM-V068 where functions expand beyond all bounds.
    """
    numbers, identities = ValueNumbers(contents, max_constant_bytes), OwnIdentities()
    values = number_source(numbers, source, identities, placeholders=placeholders)
    found = number_chips(numbers, values, chips, wires, identities, placeholders=placeholders)
    outputs = [name for name, number in values.outputs if found.outputs.get(name) != number]
    return StructureProof(
        found.ops, tuple(found.unproven), tuple(dict.fromkeys(outputs)), tuple(unfollowed_passes)
    )
