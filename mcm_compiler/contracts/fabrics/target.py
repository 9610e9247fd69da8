"""The contract of targets whose chips are fabrics, and what is found out about each chip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

if TYPE_CHECKING:
    import onnx_ir as ir

    from mcm_compiler.contracts.fabrics.fabric import Fabric, MappingProblem, Mappings
    from mcm_compiler.contracts.fabrics.measurement import MappingJudge
    from mcm_compiler.contracts.program import LoweredProgram
    from mcm_compiler.contracts.target import ChipModel, Wire

FABRIC_SECTION: Final = "fabrics"
"""Field of reports with how chips are laid out; absent where chips are no fabrics."""


@dataclass(frozen=True)
class UnitChoice:
    """How many units a subgraph is laid out on; what is left open the lowering decides.

    Attributes:
        compute_units: compute units that may be used; None for all.
        seed: None for the shares that balance the stages; else shares drawn at random around them,
            for training data.
    """

    compute_units: int | None = None
    seed: int | None = None


@dataclass(frozen=True, eq=False)
class MappedChip:
    """A chip whose subgraph has been laid out.

    Attributes:
        chip: index.
        problem: what was laid out.
        mapping: a batch of one.
        period_cycles: measured.
        latency_cycles: measured.
        bound_cycles: no mapping has a shorter period.
        error: by which share the period may be wrong; see `Measurements`.
        method: what found the mapping.
        like: the chip whose mapping this one took, as their problems are equal; -1 for none.
    """

    chip: int
    problem: MappingProblem
    mapping: Mappings
    period_cycles: float
    latency_cycles: float
    bound_cycles: float
    error: float = 0.0
    method: str = ""
    like: int = -1


@runtime_checkable
class MapsChips(Protocol):
    """A target whose chips are fabrics."""

    @property
    def fabric(self) -> Fabric:
        """The fabric that each chip is."""
        ...

    def mapping_problem(self, model: ir.Model, choice: UnitChoice) -> MappingProblem:
        """The units and streams of a subgraph.

        Args:
            model: complete, with shapes; the model of a chip, or a block of a training set.
            choice: see there.

        Raises:
            CompileError: MCM-M0## where it does not fit, with numbers and what to do.
        """
        ...

    def mapping_judge(self, most_hops: int | None = None) -> MappingJudge:
        """Measures mappings on the fabric.

        Args:
            most_hops: limit on the hops of flits in a simulation whose state has not repeated; its
                period has an error bound. None for the simulator's own limit.
        """
        ...

    @property
    def lowering_hash(self) -> str:
        """A hash of the rules by which `mapping_problem` makes units and streams.

        Data and checkpoints carry it: a model learned from one lowering is not used for another.
        """
        ...

    def lower_mapped(
        self, chips: Sequence[ChipModel], wires: Sequence[Wire], mapped: Sequence[MappedChip]
    ) -> LoweredProgram:
        """As `Lowers.lower`, with each chip as one pipelined kernel.

        It takes the measured period, and its results are there after the latency.
        """
        ...
