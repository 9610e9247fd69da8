"""Features of a graph for the policy, and the same in shapes that compiled programs share."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from mcm_compiler.contracts.partition import Bools, Floats, Ints, PartitionProblem
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.placements.ring_rules import dependency_edges

Singles = npt.NDArray[np.float32]

FEATURES_VERSION = 2
"""Rises with every change of what a column means; checkpoints name the version they read."""

OP_CLASSES: tuple[tuple[str, ...], ...] = (
    ("Conv", "ConvInteger", "QLinearConv"),
    ("ConvTranspose",),
    ("MatMul", "MatMulInteger", "QLinearMatMul", "Einsum"),
    ("Gemm",),
    ("LSTM", "GRU", "RNN"),
    ("Attention", "MultiHeadAttention"),
    ("BatchNormalization", "InstanceNormalization"),
    ("LayerNormalization", "RMSNormalization", "SkipLayerNormalization", "GroupNormalization"),
    ("Softmax", "LogSoftmax"),
    ("Relu", "LeakyRelu", "PRelu", "Clip", "HardSwish", "HardSigmoid", "Elu", "Selu"),
    ("Sigmoid", "Tanh", "Gelu", "Erf", "Exp", "Log", "Softplus", "Swish"),
    ("Add", "Sub", "Sum"),
    ("Mul", "Div", "Pow", "Sqrt", "Reciprocal", "Neg", "Abs"),
    ("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LpPool"),
    ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ArgMax", "ArgMin"),
    ("Concat",),
    ("Split", "Slice"),
    ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Expand", "Tile"),
    ("Transpose", "DepthToSpace", "SpaceToDepth"),
    ("Gather", "GatherElements", "GatherND", "ScatterND", "ScatterElements"),
    ("Pad", "Resize", "Upsample"),
    ("Cast", "QuantizeLinear", "DequantizeLinear"),
    ("Equal", "Less", "Greater", "Where", "Not", "And", "Or"),
    ("Loop", "Scan", "If"),
)
"""Op types that share an embedding; every other type is of the class after the last."""

NUM_OP_CLASSES = len(OP_CLASSES) + 1

COLUMNS = (
    "log_cost", "cost_of_a_chip", "log_output_bytes", "log_input_bytes", "log_weight_bytes",
    "weight_share", "weight_pressure", "shared_weights", "in_degree", "out_degree",
    "depth_from_start", "depth_to_end", "late_position", "given_position", "output_link_time",
    "input_link_time", "from_host", "to_host", "reach", "place", "log_units", "log_chips",
    "memory_pressure", "heaviest", "mean_link_time", "mean_out_degree", "strict",
)  # fmt: skip
"""Meaning of the columns of `GraphFeatures.values`; the last seven are the same for all nodes."""

PLACE = COLUMNS.index("place")
"""The column of a node's place on the ring, from 0 to 1, around which the policy scores chips."""

_CLASS_OF = {op: k for k, ops in enumerate(OP_CLASSES) for op in ops}
_MOST = 6.0


@dataclass(frozen=True, eq=False)
class GraphFeatures:
    """A problem as the policy sees it: a graph of the n units with a place of their own.

    Attributes:
        units: `[n]`, unit of the problem that each node stands for; clonable ones are left out.
        op_class: `[n]`, index into `OP_CLASSES`.
        values: `[n, len(COLUMNS)]`.
        source: `[e]`, node that each dependency comes from; sorted by `target`.
        target: `[e]`, node that each dependency goes to.
        late_order: `[n]`, nodes in a topological order, each as late as its readers allow.
        num_chips: C.
    """

    units: Ints
    op_class: Ints
    values: Singles
    source: Ints
    target: Ints
    late_order: Ints
    num_chips: int

    @property
    def num_nodes(self) -> int:
        """Of the graph, n."""
        return self.units.size

    def along(self, place: npt.NDArray[np.floating[Any]]) -> GraphFeatures:
        """The same graph with other places.

        Args:
            place: `[n]`, from 0 to 1, as of `PLACE`; until then it is the share of work before
                the node along the late order.
        """
        values = self.values.copy()
        values[:, PLACE] = place
        return dataclasses.replace(self, values=values)


def graph_features(problem: PartitionProblem) -> GraphFeatures:
    """The features of a problem; O(units + tensor and weight uses)."""
    units = np.flatnonzero(~problem.clonable).astype(np.int32)
    n, chips, limits = units.size, problem.num_chips, problem.limits
    index = np.full(problem.num_units, -1, np.int64)
    index[units] = np.arange(n)
    ends = np.unique(np.stack([index[end] for end in dependency_edges(problem)]), axis=1)
    by_target = np.lexsort((ends[0], ends[1]))
    source, target = ends[:, by_target].astype(np.int32)
    cost = problem.compute_s[units]
    total_s = max(float(cost.sum()), 1e-30)
    balanced_s = total_s / chips
    down = _depths(source, target, n)
    by_source = np.argsort(-source, kind="stable")
    up = _depths(target[by_source], source[by_source], n)
    deepest = max(int(down.max(initial=0)), int(up.max(initial=0)), 1)
    # Sorted by height above the end: readers directly after what they wait for longest.
    late_order = np.lexsort((np.arange(n), -up)).astype(np.int32)
    produced, consumed, host_in, host_out = _bytes_through(problem)
    weights, shared = _weights_of(problem)
    sram = float(min(limits.sram_bytes))
    out_degree, in_degree = (np.bincount(ends, minlength=n) for ends in (source, target))
    late = _work_before(cost, late_order)
    reach = np.zeros(n)
    np.maximum.at(reach, source, late[target] - late[source])
    link_s = 1.0 / limits.link_bytes_per_s
    own = (
        _log_ratio(cost, total_s / max(n, 1)),
        np.minimum(cost / balanced_s, _MOST),
        _log_ratio(produced[units], produced.mean() if n else 1.0),
        _log_ratio(consumed[units], consumed.mean() if n else 1.0),
        np.log1p(weights[units] / max(float(weights.mean()), 1.0)),
        np.minimum(weights[units] * chips / max(float(weights.sum()), 1.0), _MOST),
        weights[units] / sram,
        shared[units] / np.maximum(weights[units], 1.0),
        np.log1p(in_degree),
        np.log1p(out_degree),
        down / deepest,
        up / deepest,
        late,
        _work_before(cost, np.arange(n)),
        np.log1p(produced[units] * link_s / balanced_s),
        np.log1p(consumed[units] * link_s / balanced_s),
        host_in[units].astype(np.float64),
        host_out[units].astype(np.float64),
        reach,
        late,
    )
    tensor_s = float(problem.tensor_bytes.mean()) * link_s if problem.tensor_bytes.size else 0.0
    everywhere = (
        np.log(max(n, 1)) / 8.0,
        np.log2(chips) / 8.0,
        min(float(problem.weight_bytes.sum()) / float(sum(limits.sram_bytes)), _MOST),
        np.log1p(float(cost.max(initial=0.0)) / balanced_s),
        np.log1p(tensor_s / balanced_s),
        float(out_degree.mean()) / 4.0 if n else 0.0,
        float(problem.routing == "strict"),
    )
    values = np.empty((n, len(COLUMNS)), np.float32)
    values[:, : len(own)] = np.stack(own, axis=1)
    values[:, len(own) :] = everywhere
    return GraphFeatures(
        units, _op_classes(problem)[units], values, source, target, late_order, chips,
    )  # fmt: skip


def _op_classes(problem: PartitionProblem) -> Ints:
    other = NUM_OP_CLASSES - 1
    if not problem.op_types:
        return np.full(problem.num_units, other, np.int32)
    return np.array([_CLASS_OF.get(op, other) for op in problem.op_types], np.int32)


def _depths(source: Ints, target: Ints, n: int) -> Ints:
    """`[n]`, edges on the longest path that ends at each node.

    Edges come in an order in which all that lead to a node stand before any that leaves it.
    """
    depth = [0] * n
    for s, t in zip(source.tolist(), target.tolist(), strict=True):
        depth[t] = max(depth[t], depth[s] + 1)
    return np.array(depth, np.int32)


def _work_before(cost: Floats, order: npt.NDArray[np.integer]) -> Floats:
    """`[n]`, share of all work before the middle of each node along an order."""
    share = np.empty(cost.size)
    running = np.cumsum(cost[order])
    share[order] = (running - 0.5 * cost[order]) / max(float(cost.sum()), 1e-30)
    return share


def _bytes_through(problem: PartitionProblem) -> tuple[Floats, Floats, Bools, Bools]:
    """`[N]` each: bytes made, bytes read, whether it reads from the host, writes to it."""
    produced, consumed = np.zeros(problem.num_units), np.zeros(problem.num_units)
    reads_host = np.zeros(problem.num_units, np.bool_)
    writes_host = np.zeros(problem.num_units, np.bool_)
    made = problem.tensor_producer >= 0
    np.add.at(produced, problem.tensor_producer[made], problem.tensor_bytes[made])
    writes_host[problem.tensor_producer[made & problem.tensor_to_host]] = True
    tensor = np.repeat(np.arange(made.size), np.diff(problem.tensor_ptr))
    np.add.at(consumed, problem.tensor_consumers, problem.tensor_bytes[tensor])
    reads_host[problem.tensor_consumers[~made[tensor]]] = True
    return produced, consumed, reads_host, writes_host


def _weights_of(problem: PartitionProblem) -> tuple[Floats, Floats]:
    """`[N]` each: bytes of weights a unit reads, and those of them that others read, too."""
    held, shared = np.zeros(problem.num_units), np.zeros(problem.num_units)
    users = np.diff(problem.weight_ptr)
    weight = np.repeat(np.arange(users.size), users)
    np.add.at(held, problem.weight_users, problem.weight_bytes[weight])
    common = users[weight] > 1
    np.add.at(shared, problem.weight_users[common], problem.weight_bytes[weight[common]])
    return held, shared


def _log_ratio(values: Floats, mean: float) -> Floats:
    """Logarithm of what is how much above the mean, from -1 to 1 over six e-folds each way."""
    if not mean > 0:
        return np.zeros(values.size)
    return np.clip(np.log(np.maximum(values, 1e-30) / mean), -_MOST, _MOST) / _MOST


_Number = TypeVar("_Number", bound=np.generic)

EDGES_PER_NODE = 2
MIN_NODES = 64

MOST_NODES = 65_535
"""Nodes of the largest graph that a bucket is made for; what learning keeps of it stays below a
gigabyte."""


class PaddedGraph(NamedTuple):
    """One graph, padded to a bucket; arrays of NumPy, or of what a formula is evaluated in.

    The last node is a stand-in that padded edges lead from and to.

    Attributes:
        op_class: `[P]`.
        values: `[P, F]`.
        source: `[Q]`, edges sorted by `target`.
        target: `[Q]`.
        by_source: `[Q]`, the same edges sorted by `source`: positions in the above.
        in_share: `[P]`, one over the number of producers, 0 where there are none.
        out_share: `[P]`, one over the number of consumers, likewise.
        real: `[P]`, 1 for nodes, 0 for padding.
    """

    op_class: Any
    values: Any
    source: Any
    target: Any
    by_source: Any
    in_share: Any
    out_share: Any
    real: Any


def padded_nodes(num_nodes: int, num_edges: int) -> int:
    """Nodes of the smallest bucket that holds a graph, one of them the stand-in.

    They are 64 times powers of the square root of 2, with `EDGES_PER_NODE` edges each.

    Raises:
        CompileError: MCM-L005 for more than `MOST_NODES` nodes, or `EDGES_PER_NODE` times as many
            edges.
    """
    if num_nodes > MOST_NODES or num_edges > MOST_NODES * EDGES_PER_NODE:
        raise CompileError.of(
            "MCM-L005",
            f"a graph of {num_nodes} nodes and {num_edges} edges is too large to learn on: "
            f"{MOST_NODES} nodes and {MOST_NODES * EDGES_PER_NODE} edges are the most",
            at="the policy",
        )
    needed = max(num_nodes + 1, -(-num_edges // EDGES_PER_NODE), MIN_NODES)
    nodes = MIN_NODES
    k = 0
    while nodes < needed:
        k += 1
        # Multiples of 16 suit vector units.
        nodes = round(MIN_NODES * 2 ** (k / 2) / 16) * 16
    return nodes


def pad_graph(features: GraphFeatures) -> PaddedGraph:
    """Pads a graph to its bucket."""
    nodes = padded_nodes(features.num_nodes, features.source.size)
    return _padded(features, nodes, nodes * EDGES_PER_NODE)


def whole_graph(features: GraphFeatures) -> PaddedGraph:
    """A graph without padding."""
    return _padded(features, features.num_nodes, features.source.size)


def _padded(features: GraphFeatures, nodes: int, edges: int) -> PaddedGraph:
    n, e = features.num_nodes, features.source.size
    source, target = np.full((2, edges), nodes - 1, np.int32)
    source[:e], target[:e] = features.source, features.target
    return PaddedGraph(
        op_class=pad_rows(features.op_class, nodes),
        values=pad_rows(features.values, nodes),
        source=source,
        target=target,
        by_source=np.argsort(source, kind="stable").astype(np.int32),
        in_share=_shares(features.target, n, nodes),
        out_share=_shares(features.source, n, nodes),
        real=pad_rows(np.ones(n, np.float32), nodes),
    )


def pad_rows(rows: npt.NDArray[_Number], nodes: int, axis: int = 0) -> npt.NDArray[_Number]:
    """Zeros after the rows of real nodes along an axis."""
    shape = list(rows.shape)
    shape[axis] = nodes
    padded = np.zeros(shape, rows.dtype)
    padded.swapaxes(0, axis)[: rows.shape[axis]] = rows.swapaxes(0, axis)
    return padded


def _shares(ends: Ints, num_nodes: int, padded: int) -> Singles:
    degree = np.bincount(ends, minlength=num_nodes)
    share = np.divide(1.0, degree, out=np.zeros(num_nodes), where=degree > 0)
    return pad_rows(share.astype(np.float32), padded)
