"""The contract of bounds over all divisions of kernels, numbers of copies and placements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import onnx_ir as ir

from mcm_compiler.contracts.fusion import FusionPlan
from mcm_compiler.contracts.target import PackageLimits, Target
from mcm_compiler.graph.annotations import AnnotationKey


@dataclass(frozen=True)
class DividedKernel:
    """Numbers that all divisions of a kernel have in common.

    Attributes:
        name: of its last op.
        seconds: least work of all parts together, on a chip of speed 1.
        untied_s: the part of it that no weights limit, such as the launch.
        weight_bytes: weights of its own that a chip must hold to do all the rest; for a share of
            that, the same share of them. 0 where work and weights have no such relation.
        before_bytes: weights that are used, all of them, for each element that a part computes.
            The chips up to that part's hold them.
        after_bytes: weights that are used, all of them, for what needs such an element, whichever
            it is. The chips from that part's on hold them.
        leaving_bytes: outputs of the model that it computes.
    """

    name: str
    seconds: float
    untied_s: float
    weight_bytes: int
    before_bytes: int
    after_bytes: int
    leaving_bytes: int


@dataclass(frozen=True)
class DivisionBound:
    """A proven bound, with all that a proof needs.

    Attributes:
        seconds: per inference of the package, of every division, number of copies, number of
            inferences a round, and placement.
        argument: why, in a few words with the numbers.
        first: the proof counts the kernels that cannot be on chips before this place (without
            prices, the outputs take as long to leave),
        last: nor behind this one, in the order of the chips along dependencies, from 0.
        prices: of each of these places, seconds of work that a byte of memory there is worth.
        forced_bytes: of each of them, memory for weights of kernels that come before (behind, in
            the second half of the chips), where any kernel runs that needs as many there. All work
            of the others is allowed for.
        kernels: of the undivided model.
    """

    seconds: float
    argument: str
    first: int
    last: int
    prices: tuple[float, ...]
    forced_bytes: tuple[int, ...]
    kernels: tuple[DividedKernel, ...]


@runtime_checkable
class ProvesDivisions(Protocol):
    """A proof checker of bounds over all divisions. Registered as `proof-checker.divisions`."""

    def kernels(
        self, model: ir.Model, target: Target, plan: FusionPlan
    ) -> tuple[DividedKernel, ...] | None:
        """The kernels of an undivided model; None where nothing is known of their parts."""
        ...

    def rules_out_period(self, bound: DivisionBound, limits: PackageLimits) -> bool:
        """Check that the prices of a bound show that no period is shorter."""
        ...


DIVISION_BOUND: AnnotationKey[DivisionBound | None] = AnnotationKey(
    "division_bound", derived_from=()
)
"""The bound of the undivided model; None where none is known."""
