"""The contract of replication: pipelines side by side on the chips of one package."""

from __future__ import annotations

from dataclasses import dataclass, field

from mcm_compiler.cost import NODE_COST
from mcm_compiler.fusion import FUSION_PLAN
from mcm_compiler.ir.annotations import GRAPH, AnnotationKey
from mcm_compiler.partition import LowerBound, PartitionProblem


@dataclass(frozen=True)
class Replication:
    """Equal pipelines, each on consecutive chips of its own, which take inferences in turn.

    Chip `r * chips_each + c` of the package runs what chip `c` of the one compiled pipeline runs.
    All times are seconds under the fast model.

    Attributes:
        replicas: how many pipelines, at least 1.
        chips_each: chips that each of them may use.
        others: what the package can at best come to per inference with any other number of
            pipelines, or None where there is none.
        considered: `(replicas, chips of each, seconds per inference or None where nothing fits)`
            for each number that was looked at.
    """

    replicas: int
    chips_each: int
    others: LowerBound | None = None
    considered: tuple[tuple[int, int, float | None], ...] = field(default=())

    def fallbacks(self) -> tuple[Replication, ...]:
        """What to try where nothing that runs is found with this many: the others, best first."""
        known = [(s, count, each) for count, each, s in self.considered if s is not None]
        rest = [(s, count, each) for s, count, each in sorted(known) if count < self.replicas]
        # The bound of all numbers but one is no bound once that one is left behind.
        return tuple(Replication(count, each, None, self.considered) for _, count, each in rest)

    def bound(self, pipeline: LowerBound) -> LowerBound:
        """Seconds per inference of the package that no number of equal pipelines can undercut.

        Args:
            pipeline: proven for one of these pipelines.
        """
        own = pipeline
        if self.replicas > 1:
            argument = f"{self.replicas} pipelines, each: {pipeline.argument}"
            own = LowerBound(pipeline.seconds / self.replicas, argument, pipeline.proof)
        if self.others is None or self.others.seconds >= own.seconds:
            return own
        return self.others


PACKAGE_PROBLEM: AnnotationKey[PartitionProblem] = AnnotationKey(
    "package_problem", derived_from=(GRAPH, NODE_COST, FUSION_PLAN)
)
"""The partition problem of one pipeline on all chips of the package."""

REPLICATION: AnnotationKey[Replication] = AnnotationKey(
    "replication", derived_from=(PACKAGE_PROBLEM, "applied_plan")
)
"""How many pipelines the package runs; absent means one on all chips."""
