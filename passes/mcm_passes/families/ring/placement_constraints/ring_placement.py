"""The cost `ring`: accelerators are chips of a ring, whose links work next to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mcm_compiler.arrays.randomness import seeded_generator
from mcm_compiler.contracts.placement import Placement, PlacementRequest
from mcm_compiler.diagnostics import CompileError
from mcm_passes.mapping.device_placement.device_groups import (
    answerable_groups,
    not_found,
    partition_problem,
    with_free,
)
from mcm_passes.mapping.device_placement.device_loads import device_loads
from mcm_passes.mapping.search.named import runnable
from mcm_passes.mapping.solving.solve import solve

DEFAULT_PARTITIONER = "dp"


@dataclass(frozen=True)
class RingPlacement:
    """The busiest chip or link sets the period, as under the analytic model of `mcmc compile`.

    A link takes an output's transfer time for each output that crosses it; relays cost the links'
    time alone. Any registered strategy searches.
    """

    name: ClassVar[str] = "ring"
    summary: ClassVar[str] = "chips and links of a ring overlap; needs a rule of the ring"

    def place(self, request: PlacementRequest) -> Placement:
        """Places the operators; MCM-F005 to MCM-F007, and what `solve` raises."""
        problem = request.problem
        if request.rule == "none":
            raise CompileError.of(
                "MCM-F005",
                "the cost 'ring' needs a ring, and the rule is none",
                at=problem.source,
                hint="give --rule relay or --rule strict, or --cost device-placement",
            )
        groups = answerable_groups(problem, request.rule)
        strategy, text = runnable(request.partitioner or DEFAULT_PARTITIONER)
        arrays = partition_problem(problem, groups, request.rule)
        found = solve(
            arrays,
            strategy,
            seeded_generator(request.seed, f"placement/{text}"),
            request.budget,
            strategy_text=text,
        )
        device_of = with_free(problem, groups, found.chip_of, found.chip_of)
        if violations := device_loads(problem, device_of, request.rule).violations:
            raise not_found(problem, request.rule, violations[0])
        # Times of the file: what leaves a chip along the ring is the load of the link behind it.
        loads = device_loads(problem, device_of, "relay")
        period = float(max(loads.compute.max(), loads.send.max()))
        return Placement(
            device_of,
            text,
            request.evaluations,
            device_load=loads.compute,
            period=period,
            lower_bound=min(found.bound.seconds, period),
            argument=found.bound.argument,
            proof=found.bound.proof,
        )
