"""The contract of sharding: which operators were split over several chips, and how."""

from __future__ import annotations

from dataclasses import dataclass

from mcm_compiler.ir.annotations import AnnotationKey


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


SHARDING_PLAN: AnnotationKey[ShardingPlan] = AnnotationKey("sharding_plan")
"""The sharding plan that the graph follows."""
