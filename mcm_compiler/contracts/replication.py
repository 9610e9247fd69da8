"""The contract of replication: pipelines side by side on the chips of one package."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, NotRequired, TypedDict

from mcm_compiler.contracts.cost import NODE_COST
from mcm_compiler.contracts.evaluation import BatchEvaluator
from mcm_compiler.contracts.fusion import FUSION_PLAN
from mcm_compiler.contracts.partition import Ints, LowerBound, PartitionProblem
from mcm_compiler.graph.annotations import GRAPH, AnnotationKey
from mcm_compiler.text.json_text import Index, Whole
from mcm_compiler.text.units import count_text


@dataclass(frozen=True)
class PipelineCount:
    """A number of equal replicas that was considered, each of the same rounds.

    Seconds of the package are those between rounds of inferences, where there are rounds.

    Attributes:
        replicas: the number.
        chips_each: chips that each of them may use.
        analytic_s: seconds between inferences of the package with a first partition of one
            replica, under the analytic model; None if none was found.
        simulated_s: the same on the simulator; None if it was not asked, or if that partition does
            not run.
        bound: proven for one of the replicas, on `chips_each` chips: seconds between its
            inferences, not the package's; None if `ruled_out` is not empty.
        ruled_out: code of the diagnostic that proves that no replica fits `chips_each` chips;
            empty if none does.
        partitions: `[R, N]`, partitions of these seconds: the first row under the analytic model,
            the fastest row on the simulator; None if there are no seconds.
        wait_s: seconds of the package, by the analytic model, between steps of all sequences that
            the first partition has memory for. It is their latency by their number, or the period
            with their states if that is longer; 0 without states.
    """

    replicas: int
    chips_each: int
    analytic_s: float | None = None
    simulated_s: float | None = None
    bound: LowerBound | None = None
    ruled_out: str = ""
    partitions: Ints | None = field(default=None, compare=False, repr=False)
    wait_s: float = field(default=0.0, compare=False, repr=False)

    @property
    def bound_s(self) -> float | None:
        """Seconds between inferences of the package that no partition can undercut."""
        return None if self.bound is None else self.bound.seconds / self.replicas

    @property
    def seconds(self) -> float | None:
        """The simulated seconds if there are any, else the analytic model's."""
        return self.analytic_s if self.simulated_s is None else self.simulated_s

    @property
    def served_s(self) -> float | None:
        """The same, or those that steps of sequences wait for each other, if these are more."""
        return None if self.seconds is None else max(self.seconds, self.wait_s)

    @property
    def rows(self) -> tuple[Ints, ...]:
        """The partitions one by one; empty where there are none."""
        return () if self.partitions is None else tuple(self.partitions)


@dataclass(frozen=True)
class Replication:
    """Equal pipelines, each on consecutive chips of its own, which take inferences in turn.

    Chip `r * chips_each + c` of the package runs what chip `c` of the one compiled pipeline runs.

    Attributes:
        replicas: how many pipelines, at least 1.
        chips_each: chips that each of them may use.
        considered: all numbers that were looked at. Where it is not empty it is complete: every
            other number leaves each pipeline as many chips as a larger one that is listed.
        round: inferences that each pipeline computes together, in as many classes.
        divided: whether a level found what ops are divided by, and compared it by partitions.
    """

    replicas: int
    chips_each: int
    considered: tuple[PipelineCount, ...] = field(default=())
    round: int = 1
    divided: bool = False

    @property
    def at_once(self) -> int:
        """Inferences that the package completes in each period of one pipeline."""
        return self.replicas * self.round

    @property
    def others(self) -> LowerBound | None:
        """Lower bound of the package's seconds per inference with any other number.

        None if no other number was considered, or all of them are ruled out.
        """
        best: PipelineCount | None = None
        for one in self.considered:
            if one.replicas == self.replicas or one.bound_s is None:
                continue
            if best is None or one.bound_s < (best.bound_s or 0.0):
                best = one
        if best is None or best.bound is None:
            return None
        each = count_text(best.chips_each, "chip")
        argument = (
            "the weakest of the bounds of all numbers of equal pipelines, that of "
            f"{best.replicas} with {each} each: {best.bound.argument}"
        )
        seconds = best.bound.seconds / (best.replicas * self.round)
        return replace(best.bound, seconds=seconds, argument=argument)

    def with_count(self, one: PipelineCount) -> Replication:
        """The same with another one of the numbers that were looked at."""
        return replace(self, replicas=one.replicas, chips_each=one.chips_each)

    def placed(self, chip_of: Ints) -> Replication:
        """The same with `chip_of[N]`, a partition of one of the pipelines, as known."""
        one = PipelineCount(self.replicas, self.chips_each, partitions=chip_of[None])
        return replace(self, considered=(one,))

    @property
    def known(self) -> tuple[Ints, ...]:
        """Partitions of one of the pipelines, from when the numbers were looked at."""
        return next((one.rows for one in self.considered if one.replicas == self.replicas), ())

    def fallbacks(self) -> tuple[Replication, ...]:
        """Alternatives if no partition runs with this number: the others, best first.

        Of those without a partition the bound counts.
        """
        others = [one for one in self.considered if one.replicas != self.replicas]
        seconds = [one.bound_s if one.served_s is None else one.served_s for one in others]
        known = [(s, one.replicas, one) for s, one in zip(seconds, others, strict=True) if s]
        return tuple(self.with_count(one) for _, _, one in sorted(known, key=lambda row: row[:2]))

    def bound(self, pipeline: LowerBound) -> LowerBound:
        """Seconds per inference of the package that no number of equal pipelines can undercut.

        Args:
            pipeline: proven for one of these pipelines.
        """
        own, argument = pipeline, pipeline.argument
        if self.replicas > 1:
            argument = f"{self.replicas} equal pipelines, each: {argument}"
        if self.round > 1:
            argument = f"rounds of {self.round} inferences, each: {argument}"
        if self.at_once > 1:
            own = LowerBound(pipeline.seconds / self.at_once, argument, pipeline.proof)
        others = self.others
        if others is None or others.seconds >= own.seconds:
            return own
        return others

    def places(self, chips: Iterable[int]) -> tuple[int, ...]:
        """Chips of the package, ascending, that run what `chips` of one pipeline run."""
        ascending = sorted(set(chips))
        return tuple(r * self.chips_each + c for r in range(self.replicas) for c in ascending)


class Division(NamedTuple):
    """Division of a graph, as options of the pass `parallelize`.

    Attributes:
        fraction: part of a chip's SRAM that one operator may fill.
        tile_rows: rows of the largest tile; 0 for what fits no chip alone.
        grain: part of the work for each chip that one kernel may take; 0 for any.
        caches: pieces of the cache of each layer.
    """

    fraction: float = 0.95
    tile_rows: int = 0
    grain: float = 0.0
    caches: int = 1


class Placement(TypedDict):
    """Where a compile places the units of one pipeline.

    Attributes:
        replicas: equal pipelines side by side.
        chip_of: chip of each unit, by the unit's name.
        copied: names of the units that are copied to each chip that reads them.
        chips: chips that units were copied for.
        sram_bytes: SRAM of the largest of the chips that ops were divided for.
        cost_model: text form of the cost model by which kernels leave a part of a resource idle;
            missing where they use all of it.
        division: what ops were divided by; missing where that was not chosen.
    """

    replicas: Whole
    chips: Whole
    sram_bytes: Whole
    chip_of: dict[str, Index]
    copied: list[str]
    cost_model: NotRequired[str]
    division: NotRequired[Division]


class CopiedFor(NamedTuple):
    """Numbers of the package that units are chosen for which each chip computes by itself.

    Attributes:
        chips: at most; 0 for those of the target.
        sram_bytes: of one chip, at most; 0 for that of the target.
        classes: inferences that the graph computes together; what one may copy is a share of its
            own work.
    """

    chips: int = 0
    sram_bytes: int = 0
    classes: int = 1


@dataclass(frozen=True)
class ChipRole:
    """Role of one chip of the package.

    Attributes:
        chip: its place in the package.
        pipeline: the pipeline that it belongs to, from 0.
        runs: the chip of one pipeline whose model it runs.
        classes: of the inferences of a round that it serves, ascending; none without rounds.
    """

    chip: int
    pipeline: int
    runs: int
    classes: tuple[int, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        own: dict[str, Any] = {"chip": self.chip, "pipeline": self.pipeline, "runs": self.runs}
        return own | ({"classes": list(self.classes)} if self.classes else {})


def chip_roles(
    replicas: int, chips_each: int, used: Mapping[int, tuple[int, ...]]
) -> Iterator[ChipRole]:
    """Roles of the used chips of the package, in ascending order of chips.

    Args:
        replicas: pipelines side by side.
        chips_each: chips from one to the next.
        used: chips of one pipeline that have a model, ascending, with the classes that they serve.
    """
    for pipeline in range(replicas):
        for chip, classes in used.items():
            yield ChipRole(pipeline * chips_each + chip, pipeline, chip, classes)


COPIED_FOR: AnnotationKey[CopiedFor] = AnnotationKey("copied_for", derived_from=())
"""Numbers for the choice of copied units that options of a pass state; absent means the target's.
"""

DIVISION: AnnotationKey[Division] = AnnotationKey("division", derived_from=())
"""The division of the model, chosen or given."""

PACKAGE_PROBLEM: AnnotationKey[PartitionProblem] = AnnotationKey(
    "package_problem", derived_from=(GRAPH, NODE_COST, FUSION_PLAN)
)
"""The partition problem of one pipeline on all chips of the package."""

REPLICATION: AnnotationKey[Replication] = AnnotationKey(
    "replication", derived_from=(PACKAGE_PROBLEM, "applied_plan")
)
"""How many pipelines the package runs; absent means one on all chips."""

PACKAGE_EVALUATOR: AnnotationKey[BatchEvaluator | None] = AnnotationKey(
    "package_evaluator", derived_from=(PACKAGE_PROBLEM,)
)
"""The simulator for search of `PACKAGE_PROBLEM`; None where the target has none."""
