"""The contract of mapping models, which guess what a judge would measure."""

from __future__ import annotations

from typing import Protocol

from mcm_compiler.arrays.types import Floats
from mcm_compiler.contracts.described import Named
from mcm_compiler.contracts.fabrics.fabric import Fabric
from mcm_compiler.contracts.fabrics.problem import MappingProblem, Mappings


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

    Found by name through the entry points of `mcm_compiler.mapping_models`.
    """

    def prepared(self, problem: MappingProblem, fabric: Fabric) -> PreparedMappingModel:
        """Works out what depends on problem and fabric alone.

        Raises:
            CompileError: MCM-M0## where it knows nothing of such fabrics, such as a model that has
                learned from another one.
        """
        ...
