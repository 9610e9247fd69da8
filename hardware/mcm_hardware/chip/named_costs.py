"""The target's own cost models under the names by which they can be chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

from mcm_compiler.components.cost_choice import (
    CostBasis,
    CostChoice,
    CostModelMaker,
    choose_cost_model,
)
from mcm_compiler.components.cost_files import cost_model_text, user_files
from mcm_compiler.contracts.cost import CostModel, OpCosts
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.text.option_fields import checked, from_to
from mcm_compiler.text.toml_description import parse_description


@dataclass(frozen=True)
class RooflineCosts(CostModelMaker):
    """The roofline for search and bounds; the simulator keeps its durations, the cycle model's."""

    name: ClassVar[str] = "roofline"
    summary: ClassVar[str] = "roofline for search and bounds, the cycle model for the simulator"

    def make(self, basis: CostBasis) -> OpCosts:
        """The roofline for search and bounds; the durations of kernels for the simulator."""
        return basis.own if basis.roofline is None else basis.roofline


@dataclass(frozen=True)
@checked(rows=from_to(2**-20, 1))
class CycleCosts(CostModelMaker):
    """Default of packages: the simulator's durations of kernels for search and bounds, too.

    Attributes:
        rows: share of the rows of the MAC array that kernels use. A smaller array fills and drains
            sooner, and most kernels take longer on it.

    Raises:
        ValueError: for a share out of range.
    """

    name: ClassVar[str] = "cycles"
    summary: ClassVar[str] = "the cycle model for search, bounds and the simulator: the default"

    rows: float = 1.0

    def make(self, basis: CostBasis) -> OpCosts:
        """The model that gives kernels their durations.

        Raises:
            CompileError: MCM-C003 for a share of rows of what has no MAC array.
        """
        if self.rows == 1.0:
            return basis.played
        from mcm_hardware.chip.roofline import Roofline

        played = basis.played
        # Fabrics, which derive from it, have units instead of rows.
        if type(played) is Roofline and (array := played.chip.array).rows > 1:
            chip = replace(played.chip, array=replace(array, rows=int(array.rows * self.rows) or 1))
            return replace(played, chip=chip, name=f"{played.name}{{rows={self.rows:g}}}")
        raise CompileError.of(
            "MCM-C003",
            f"kernels are to use {self.rows:g} of the rows of a MAC array, and the target "
            "describes no array of more than one row",
            at="option rows of cost model 'cycles'",
            hint="leave `rows` out",
        )


@dataclass(frozen=True)
class CostPair:
    """Times on a chip of speed 1.

    Attributes:
        searched: for search and bounds.
        played: durations of kernels for the simulator; never shorter, op by op.
        roofline: a roofline of the same chip, for those who choose it; None where `searched` is
            one, or there is none.
    """

    searched: CostModel
    played: CostModel
    roofline: CostModel | None = None

    def each(self, change: Callable[[CostModel], CostModel]) -> CostPair:
        """Those for search and for the simulator changed likewise; one model stays one."""
        played = change(self.played)
        return CostPair(played if self.searched is self.played else change(self.searched), played)


class Described(Protocol):
    """A target with a description."""

    @property
    def name(self) -> str: ...

    @property
    def source_text(self) -> str: ...

    @property
    def cost_choice(self) -> CostChoice | None: ...

    def details(self) -> Mapping[str, Mapping[str, str | float]]: ...


def chosen_pair(own: CostPair, target: Described) -> CostPair:
    """The cost models that hold for `target`, whose own are `own`.

    A description that names a cost model, and was not loaded from a file, gets it here.

    Raises:
        CompileError: as `CostChoice.model`, and MCM-C004 if such a cost model reads files.
    """
    choice = target.cost_choice
    if choice is None:
        text = cost_model_text(parse_description(target.name, target.source_text))
        if text is None:
            return own
        choice = choose_cost_model(text, user_files(None))
    numbers = target.details()
    return CostPair(
        choice.model(CostBasis(own.searched, own.played, numbers, roofline=own.roofline)),
        choice.model(CostBasis(own.played, own.played, numbers)),
    )
