"""The contract of sharding: which operators were split over several chips, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mcm_compiler.graph.annotations import AnnotationKey

if TYPE_CHECKING:
    from mcm_compiler.contracts.sharding.parallel_plan import ParallelPlan


@dataclass(frozen=True)
class OperatorSharding:
    """One operator that was replaced by several, each with a slice of its weight.

    Attributes:
        node: name of the operator before sharding.
        weight: name of the weight that did not fit.
        weight_bytes: its size at the target's storage width.
        axis: the axis of the weight that was cut.
        pieces: names of the operators that replace it, one a slice, in order along `axis`.
    """

    node: str
    weight: str
    weight_bytes: int
    axis: int
    pieces: tuple[str, ...]


@dataclass(frozen=True)
class ShardingPlan:
    """All operators that were sharded."""

    operators: tuple[OperatorSharding, ...]


@dataclass(frozen=True)
class DividedTensor:
    """An operand or result of an op of the source model that shards have parts of.

    Attributes:
        node: name of the op.
        tensor: name of the operand or result.
        axis: along which it is divided.
        shards: into how many parts.
        runs: of how many runs of consecutive elements each part is made.
    """

    node: str
    tensor: str
    axis: int
    shards: int
    runs: int = 1


@dataclass(frozen=True)
class AppliedPlan:
    """A user's plan, and what it did to the graph.

    Attributes:
        plan: as read.
        operators: ops with divided weights.
        tensors: all that is divided of all ops.
    """

    plan: ParallelPlan
    operators: tuple[OperatorSharding, ...]
    tensors: tuple[DividedTensor, ...]


APPLIED_PLAN: AnnotationKey[AppliedPlan] = AnnotationKey("applied_plan", derived_from=())
"""The plan that the source model was rewritten by, before anything else: a record as well."""

SHARDING_PLAN: AnnotationKey[ShardingPlan] = AnnotationKey("sharding_plan", derived_from=())
"""Which ops of the source model were sharded, by name: a record, true whatever passes do next."""
