"""Targets that are made from a description, whose cost models may be chosen by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

import onnx_ir as ir

from mcm_compiler.components.cost_choice import CostChoice
from mcm_compiler.components.cost_files import with_cost_model_text
from mcm_compiler.contracts.cost import CostModel
from mcm_compiler.contracts.target import Fallback, Unsupported
from mcm_hardware.chip.named_costs import CostPair, chosen_pair

if TYPE_CHECKING:
    from mcm_hardware.chip.op_support import OpSupport


@dataclass(frozen=True)
class DescribedTarget(ABC):
    """Base of targets with a description.

    Implements `mcm_compiler.components.cost_choice.TakesCostModel`.

    Attributes:
        name: as the user names it.
        spec: its numbers.
        source_text: the TOML that it was made from.
        cost_choice: a cost model instead of its own.
    """

    name: str
    spec: object
    source_text: str
    cost_choice: CostChoice | None = field(default=None, kw_only=True)

    @abstractmethod
    def details(self) -> Mapping[str, Mapping[str, str | float]]:
        """All numbers by section and key, for `mcmc targets show`."""

    @abstractmethod
    def own_costs(self) -> CostPair:
        """The cost models that hold where none is chosen, for a chip of speed 1."""

    def with_cost_model(self, choice: CostChoice) -> Self:
        """The same target with times from another cost model.

        Raises:
            CompileError: MCM-C008 if the description cannot name it, and as `CostChoice.model`.
        """
        text = with_cost_model_text(self.name, self.source_text, choice.text)
        chosen = replace(self, source_text=text, cost_choice=choice)
        chosen.cost_model()  # faults are told before anything is compiled
        return chosen

    def cost_model(self) -> CostModel:
        """The model of a chip of speed 1 for search and bounds: the own one, or what was chosen.

        Raises:
            CompileError: MCM-C004 where the description names a cost model with files, and was not
                loaded from a file.
        """
        return self.costs.searched

    @cached_property
    def costs(self) -> CostPair:
        """The cost models of a chip of speed 1, for search and for what is played."""
        return self.beside_host(chosen_pair(self.own_costs(), self))

    @property
    def op_support(self) -> OpSupport | None:
        """Ops that its chips or devices can run; None where they run everything."""
        return None

    @property
    def fallback(self) -> Fallback:
        """Default fate of ops that it cannot run, where a compile does not say."""
        return "host" if self.op_support is None else self.op_support.fallback

    def unsupported(self, node: ir.Node) -> Unsupported | None:
        """Why it cannot run `node`; None if it can."""
        return None if self.op_support is None else self.op_support.unsupported(node)

    def beside_host(self, pair: CostPair) -> CostPair:
        """The cost models with those of what the host runs for chips, where it does."""
        return pair
