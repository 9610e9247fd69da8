"""A package of small fabrics without a real lowering: each model is laid out as one product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import onnx
import onnx_ir as ir

from mcm_compiler.contracts.fabrics.fabric import Fabric, MappingProblem
from mcm_compiler.contracts.fabrics.target import MappedChip, UnitChoice
from mcm_compiler.contracts.program import LoweredProgram
from mcm_compiler.contracts.target import ChipModel, Wire
from mcm_hardware.chip.chip_spec import ChipSpec
from mcm_hardware.families.fabric.fabric_package import chip_of
from mcm_hardware.families.fabric.mapped_lowering import lower_mapped
from mcm_hardware.families.fabric.measuring.player import MOST_HOPS, FlitJudge
from mcm_hardware.families.ring.ring_target import mcm4
from mcm_hardware.tensors.storage_widths import StorageWidths
from tests.generators.small_fabric import small_fabric, small_problem


@dataclass(frozen=True)
class FakeFabrics:
    """Implements `MapsChips` on the ring of mcm4.

    Attributes:
        name: of the package.
        changes: fields of the problem of some models, by the model's name.
    """

    name: str = "fakes"
    changes: dict[str, dict[str, object]] = field(default_factory=dict)
    lowering_hash: str = "fake"
    addition: str = "fabrics"

    @property
    def fabric(self) -> Fabric:
        return small_fabric()

    @property
    def limits(self):
        return mcm4().limits

    @property
    def chip(self) -> ChipSpec:
        return chip_of(self.fabric, StorageWidths({}))

    def mapping_problem(self, model: ir.Model, choice: UnitChoice) -> MappingProblem:
        name = model.graph.name or ""
        changes = {"name": name, "stages": (f"{name} in", f"{name} product")}
        return replace(small_problem(), **(changes | self.changes.get(name, {})))

    def mapping_judge(self, most_hops: int | None = None) -> FlitJudge:
        return FlitJudge(most_hops=most_hops or MOST_HOPS)

    def lower_mapped(
        self, chips: Sequence[ChipModel], wires: Sequence[Wire], mapped: Sequence[MappedChip]
    ) -> LoweredProgram:
        ring = mcm4().machine
        return lower_mapped(self.name, ring, self.fabric, self.chip, chips, wires, mapped)


def product_chip(chip: int, name: str = "product") -> ChipModel:
    """A chip with one op, from tensor `t<chip>` to `t<chip + 1>`."""
    text = f"""
        <ir_version: 10, opset_import: ["" : 21]>
        {name} (float[4, 32] t{chip}) => (float[4, 32] t{chip + 1}) {{
            t{chip + 1} = Relu(t{chip})
        }}
    """
    model = ir.from_proto(onnx.parser.parse_model(text))
    for node in model.graph:
        node.name = f"relu{chip}"
    return ChipModel(chip, model, (f"t{chip}",), (f"t{chip + 1}",))


def cycles(each: int) -> dict[str, object]:
    """The change of a problem whose compute units take so long for a firing."""
    kind = small_problem().kind
    return {"cycles": np.where(kind == 0, each, 0).astype(np.int64)}
