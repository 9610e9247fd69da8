"""The contract of mapping models, which predict measurements of the flit simulator."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from mcm_compiler.arrays.types import Floats
from mcm_compiler.contracts.described import Named
from mcm_compiler.contracts.fabrics.fabric import Fabric, MappingProblem, Mappings


class PreparedMappingModel(Protocol):
    """A model with a problem and a fabric in mind, for many mappings of the one on the other."""

    def period_cycles(self, mappings: Mappings) -> Floats:
        """`[B]`, cycles per sample that it expects of legal mappings; positive and finite.

        Pure: neither what was asked before nor what else is asked changes an answer.
        """
        ...

    def search_cost(self, mappings: Mappings) -> Floats:
        """`[B]`, what a mapper should minimise.

        The period, or that with what guides search, such as a small term for the length of wires.
        """
        ...


class MappingModel(Named, Protocol):
    """Guesses the periods of mappings: a frozen dataclass whose fields are its options.

    Registered by name as kind `mapping-model`.
    """

    def prepared(self, problem: MappingProblem, fabric: Fabric) -> PreparedMappingModel:
        """Works out what depends on problem and fabric alone.

        Raises:
            CompileError: MCM-M0## where it knows nothing of such fabrics, such as a model that has
                learned from another one.
        """
        ...


@runtime_checkable
class LearnedMappingModel(Protocol):
    """A mapping model trained for one make of fabric, one lowering and one flit simulator.

    Code that knows the target checks this before it uses the model; `MappingModel.prepared` sees
    only problems and fabrics.
    """

    def check_learned_of(self, fabric: Fabric, lowering: str, physics: str) -> None:
        """Makes sure that the model has learned of a target.

        Args:
            fabric: of the target's chips.
            lowering: `MapsChips.lowering_hash`.
            physics: `MappingJudge.physics`.

        Raises:
            CompileError: MCM-M053 where it has not.
        """
        ...


@runtime_checkable
class ChoosingMappingModel(Protocol):
    """A mapping model that stands for another one, which depends on the target."""

    def chosen_for(self, fabric: Fabric, lowering: str, physics: str) -> MappingModel:
        """The model that is used for a target, and that reports name.

        Args:
            fabric: of the target's chips.
            lowering: `MapsChips.lowering_hash`.
            physics: `MappingJudge.physics`.
        """
        ...
