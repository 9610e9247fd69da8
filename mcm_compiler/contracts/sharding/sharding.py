"""Divided operators and tensors: how a plan divides them, in parts, and as data in a model.

If no chip has enough memory to assemble a graph output from its pieces, each piece goes to the host
from the chip that makes it, and the host writes it to its place. Pieces along the first axis are
contiguous. Along any other axis a piece is written in strides, a run of elements for each index
before that axis.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import onnx_ir as ir

from mcm_compiler.graph.annotations import AnnotationKey
from mcm_compiler.text.json_text import Index, Size

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


@dataclass(frozen=True)
class OutputPart:
    """The place of a piece in a graph output, or in a graph input.

    Attributes:
        output: the graph output, or the input.
        axis: along which its pieces lie side by side.
        start: where this one begins.
        stop: one past its end.
        shape: of the whole output.
        within: the place of `output`, where that is itself only a piece of a graph output: one that
            was divided by columns and then by rows.
    """

    output: str
    axis: Index
    start: Size
    stop: Size
    shape: tuple[Size, ...]
    within: OutputPart | None = None

    @property
    def depth(self) -> int:
        """How many joins lead to the graph output."""
        return 1 if self.within is None else 1 + self.within.depth

    @property
    def graph_output(self) -> str:
        """The graph output that it is a piece of."""
        return self.output if self.within is None else self.within.graph_output

    @property
    def piece_shape(self) -> tuple[int, ...]:
        """Shape of the piece in its place; what travels may have the same elements in another."""
        before, after = self.shape[: self.axis], self.shape[self.axis + 1 :]
        return (*before, self.stop - self.start, *after)

    @property
    def strided(self) -> bool:
        """True if the piece is not contiguous in the output's memory."""
        return any(extent != 1 for extent in self.shape[: self.axis])


@dataclass(frozen=True)
class HostJoin:
    """Pieces that the host puts together.

    Attributes:
        output: what they make: a graph output, or a piece of one.
        pieces: tensors and their places, by where they begin.
    """

    output: str
    pieces: tuple[tuple[str, OutputPart], ...]


def host_joins(pieces: Iterable[tuple[str, OutputPart]]) -> list[HostJoin]:
    """The joins of the host, in an order in which all inputs of a join are there.

    Args:
        pieces: tensors that arrive, with their places.
    """
    pending = list(pieces)
    joins: list[HostJoin] = []
    while pending:
        deepest = max(part.depth for _, part in pending)
        groups: dict[str, list[tuple[str, OutputPart]]] = {}
        for tensor, part in pending:
            if part.depth == deepest:
                groups.setdefault(part.output, []).append((tensor, part))
        pending = [pair for pair in pending if pair[1].depth < deepest]
        for output, found in groups.items():
            joins.append(HostJoin(output, tuple(sorted(found, key=lambda pair: pair[1].start))))
            if (within := found[0][1].within) is not None:
                pending.append((output, within))
    return joins


OUTPUT_PARTS: AnnotationKey[Mapping[str, OutputPart]] = AnnotationKey(
    "output_parts", derived_from=()
)
"""Graph outputs and inputs of the compiled model that are pieces of the source's, by name: a
record."""


def sharded_dim(value: ir.Value, axis: int, num_shards: int, runs: int = 1) -> ir.ShardedDim:
    """How a dimension is divided, as `shard_value` writes it.

    Args:
        value: of known shape if `runs` is more than 1.
        axis: not negative.
        num_shards: at least 1.
        runs: divides the extent along the axis.
    """
    extent = value.shape[axis] if value.shape is not None else ir.SymbolicDim(None)
    if runs == 1:
        return ir.ShardedDim(axis, (ir.SimpleShardedDim(extent, num_shards),))
    assert isinstance(extent, int)
    shards = ir.SimpleShardedDim(extent // runs, num_shards)
    return ir.ShardedDim(axis, (ir.SimpleShardedDim(runs, 1), shards))


def shard_value(
    node: ir.Node,
    value: ir.Value,
    configuration: ir.ModelConfiguration,
    *,
    axis: int,
    num_shards: int,
    runs: int = 1,
    device_indices: Sequence[int] = (),
) -> None:
    """Notes on a node that a dimension of an operand or result is divided.

    A part may consist of several runs, such as of concatenated queries, keys and values. It is
    written like axes that a reshape has fused: `runs` in one shard, each divided into `num_shards`.

    Args:
        node: reads or makes the value.
        value: of known shape if `runs` is more than 1.
        configuration: of the model.
        axis: not negative.
        num_shards: at least 1.
        runs: divides the extent along the axis.
        device_indices: where the parts are.

    Raises:
        ValueError: as `ir.Node.shard`.
    """
    node.shard(
        value,
        configuration=configuration,
        axis=axis,
        num_shards=num_shards,
        device_indices=device_indices,
    )
    if runs == 1:
        return
    fused = sharded_dim(value, axis, num_shards, runs)

    def spelled(spec: ir.ShardingSpec) -> ir.ShardingSpec:
        dims = tuple(fused if dim.axis == axis else dim for dim in spec.sharded_dims)
        return replace(spec, sharded_dims=dims) if spec.value is value else spec

    node.device_configurations = tuple(
        replace(known, sharding_specs=tuple(map(spelled, known.sharding_specs)))
        if known.configuration is configuration
        else known
        for known in node.device_configurations
    )
