"""From an ONNX graph to a step: ops, values, variables and who reads what.

The work of an op is counted once for all rooflines.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from mcm_compiler.arrays.types import Bools, Floats, Ints
from mcm_compiler.contracts.boxes.box import INPUT, VARIABLE, StepProblem, common_devices
from mcm_compiler.contracts.cost import CostModel
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.graph.constants import attribute_weights, consumed_values, is_deterministic
from mcm_compiler.graph.estimated_dims import is_estimated
from mcm_compiler.graph.states import StatePair
from mcm_hardware.chip.kernel_work import is_view, kernel_work
from mcm_hardware.chip.op_support import op_name
from mcm_hardware.chip.roofline import device_roofline
from mcm_hardware.families.box.box_file import BoxSpec, DeviceKind
from mcm_hardware.op_costs.work import CONTROL_FLOW
from mcm_hardware.tensors.storage_widths import StorageWidths, value_dtype

MAX_FAULTS = 20
"""Values of unknown size that are listed."""

_WIDTHS = StorageWidths({})


@dataclass
class StepParts:
    """Parts of a step; fields are those of `StepProblem`, while they grow.

    Attributes:
        nodes: the ops that come from nodes; they are the last ones.
        names: of all ops.
        op_types: likewise.
        reads: values that each op reads.
        leader: of each op an op that it runs together with, in the end itself.
        number: of each value that has one.
        value_names: distinct.
        value_bytes: of each value.
        producer: of each value, or -1.
        view_of: of each value, or -1.
        stays: of each value.
        kept: of each value.
    """

    nodes: list[ir.Node]
    names: list[str] = field(default_factory=list[str])
    op_types: list[str] = field(default_factory=list[str])
    reads: list[set[int]] = field(default_factory=list[set[int]])
    leader: list[int] = field(default_factory=list[int])
    number: dict[ir.Value, int] = field(default_factory=dict[ir.Value, int])
    value_names: list[str] = field(default_factory=list[str])
    value_bytes: list[int] = field(default_factory=list[int])
    producer: list[int] = field(default_factory=list[int])
    view_of: list[int] = field(default_factory=list[int])
    stays: list[bool] = field(default_factory=list[bool])
    kept: list[bool] = field(default_factory=list[bool])

    def add_op(self, name: str, op_type: str) -> int:
        """A further op, which reads nothing yet."""
        self.names.append(name)
        self.op_types.append(op_type)
        self.reads.append(set())
        self.leader.append(len(self.leader))
        return len(self.names) - 1

    def add_value(self, value: ir.Value, producer: int, stays: bool = False) -> int:
        """A further value."""
        index = self.number[value] = len(self.value_names)
        self.value_names.append(value.name or f"value {index}")
        self.value_bytes.append(_WIDTHS.value_bytes(value))
        self.producer.append(producer)
        self.view_of.append(-1)
        self.stays.append(stays)
        self.kept.append(producer >= 0 and not stays and value.is_graph_output())
        return index

    def first_of(self, op: int) -> int:
        """The op that stands for all that run together with `op`."""
        while self.leader[op] != op:
            self.leader[op] = self.leader[self.leader[op]]
            op = self.leader[op]
        return op

    def join(self, one: int, other: int) -> None:
        """Lets two ops run together."""
        one, other = sorted((self.first_of(one), self.first_of(other)))
        self.leader[other] = one


def step_parts(graph: ir.Graph, states: Sequence[StatePair]) -> StepParts:
    """The parts of a step.

    Args:
        graph: with static shapes, in topological order.
        states: its variables.

    Raises:
        CompileError: MCM-D011 for values of unknown size.
    """
    pasts = {pair.past for pair in states}
    parts = StepParts(_running(graph, pasts))
    for value in graph.inputs:
        if value.name in pasts:
            parts.add_value(value, parts.add_op(value.name or "", VARIABLE), stays=True)
        elif value.name not in graph.initializers:
            parts.add_value(value, parts.add_op(value.name or "", INPUT))
    op_of = {node: parts.add_op(node.name or node.op_type, node.op_type) for node in parts.nodes}
    for node, op in op_of.items():
        for value in (*consumed_values(node), *attribute_weights(node)):
            index = parts.number.get(value)
            # What no op makes was there before: a weight, or what follows from weights.
            parts.reads[op].add(parts.add_value(value, -1) if index is None else index)
        for value in node.outputs:
            if value.name and (value.uses() or value.is_graph_output()):
                parts.add_value(value, op)
        if aliases(node) and (made := parts.number.get(node.outputs[0])) is not None:
            parts.view_of[made] = parts.number[node.inputs[0]]  # pyright: ignore[reportArgumentType]
    _check_sizes(parts)
    _update_in_place(graph, states, parts)
    parts.names = _distinct(parts.names)
    parts.value_names = _distinct(parts.value_names)
    return parts


def _running(graph: ir.Graph, pasts: set[str]) -> list[ir.Node]:
    """Nodes that depend on an input or a variable, or on chance."""
    ready = {value for name, value in graph.initializers.items() if name not in pasts}
    nodes: list[ir.Node] = []
    for node in graph:
        if all(v in ready for v in consumed_values(node)) and is_deterministic(node):
            ready.update(node.outputs)
        else:
            nodes.append(node)
    return nodes


def _update_in_place(graph: ir.Graph, states: Sequence[StatePair], parts: StepParts) -> None:
    """Runs what makes a variable's next value with it, in its memory if it reads it."""
    by_name = {value.name: value for value in (*graph.inputs, *graph.outputs)}
    for pair in states:
        past, present = parts.number[by_name[pair.past]], parts.number.get(by_name[pair.present])
        while present is not None and parts.producer[present] >= 0 and present != past:
            op = parts.producer[present]
            parts.join(parts.producer[past], op)
            if (parent := parts.view_of[present]) >= 0:
                present = parent
                continue
            same_size = parts.value_bytes[past] == parts.value_bytes[present]
            if past in parts.reads[op] and same_size:
                parts.view_of[present] = past
            break


def _check_sizes(parts: StepParts) -> None:
    """Checks that every value has a size.

    Raises:
        CompileError: MCM-D011.
    """
    unknown = [value for value in parts.number if not _has_size(value)]
    if not unknown:
        return
    faults = [
        Diagnostic(
            "MCM-D011",
            f"the size of {quote(value.name or '')} is not known",
            at=f"op {quote(maker.name or maker.op_type)}"
            if (maker := value.producer()) is not None
            else f"value {quote(value.name or '')}",
        )
        for value in unknown[:MAX_FAULTS]
    ]
    if (rest := len(unknown) - len(faults)) > 0:
        faults.append(Diagnostic("MCM-D011", f"{rest} more values are of unknown size"))
    raise CompileError(faults)


def _has_size(value: ir.Value) -> bool:
    dtype = value_dtype(value)
    if dtype is None or dtype is ir.DataType.UNDEFINED:
        return False
    if value.shape is None:
        return value.const_value is not None
    return all(isinstance(dim, int) or is_estimated(dim) for dim in value.shape)


def _distinct(names: list[str]) -> list[str]:
    """The names, those that were there before with a number behind them."""
    taken = set(names)
    if len(taken) == len(names):
        return names
    seen: set[str] = set()
    found: list[str] = []
    for name in names:
        shown, number = name, 1
        while shown in seen or (shown != name and shown in taken):
            number += 1
            shown = f"{name} ({number})"
        seen.add(shown)
        found.append(shown)
    return found


def aliases(node: ir.Node) -> bool:
    """Return whether the first output of `node` is its first input, or a view of it."""
    same = node.op_type == "Identity" and node.domain in ("", "ai.onnx")
    return same or is_view(node)


def op_times(
    nodes: Sequence[ir.Node], kinds: Sequence[DeviceKind], chosen: Mapping[str, CostModel]
) -> Floats:
    """`[nodes, kinds]`, seconds with launch; 0 where nothing runs; infinite where a kind cannot.

    Args:
        nodes: with static shapes.
        kinds: of devices.
        chosen: cost models that hold instead of rooflines, by name of kind. Where nothing runs, a
            time counts only if it was measured.

    Raises:
        CompileError: as the chosen models: MCM-C001 and MCM-C002.
    """
    costs = [device_roofline(kind) for kind in kinds]
    times = np.zeros((len(nodes), len(kinds)))
    idle = np.zeros(len(nodes), np.bool_)
    for n, node in enumerate(nodes):
        if aliases(node):
            idle[n] = True
            continue
        if (node.domain, node.op_type) in CONTROL_FLOW:
            times[n] = [cost.node_cost(node).seconds for cost in costs]
            continue
        work = kernel_work((node,), costs[0].chip.storage)
        idle[n] = not work.runs
        if work.runs:
            times[n] = [
                cost.chip.launch_s + max(cost.timing(cost.chip, work).values()) for cost in costs
            ]
    for k, kind in enumerate(kinds):
        if kind.support is not None:
            lacking = [n for n, node in enumerate(nodes) if kind.support.unsupported(node)]
            times[lacking, k] = np.inf
        if (model := chosen.get(kind.name)) is not None:
            _take_chosen(times[:, k], nodes, idle, model)
    return times


def _take_chosen(column: Floats, nodes: Sequence[ir.Node], idle: Bools, model: CostModel) -> None:
    """Writes what a chosen model says into the times of one kind, but for ops that it lacks."""
    for n in np.flatnonzero(np.isfinite(column)).tolist():
        cost = model.node_cost(nodes[n])
        column[n] = cost.seconds if cost.measured_ops or not idle[n] else 0.0


_NUMBERED = re.compile(
    r"(?:^|\.)(?:"
    r"(?:layers?|h|blocks?|stages?|features|cells?|lstm|gru|rnn)[._]?\d+(?:\.\d+)?"
    r"|(?:mixed|conv2d|inception)_?\d+[a-z]?"
    r")(?=[._]|$)",
    re.IGNORECASE,
)
_FIRST = re.compile(r"embed|attention|(?:^|\.)(?:w[tp]e|stem)(?=[._]|$)", re.IGNORECASE)
_LAST = re.compile(
    r"softmax|logits|projection|classifier|(?:^|\.)(?:lm_)?(?:head|loss|fc|pooler)(?=[._]|$)",
    re.IGNORECASE,
)


def layers_of(names: Sequence[str]) -> Ints:
    """`[N]`, the layer of each op, or -1.

    A layer is a numbered scope such as `encoder.layer.3`, `layer1.0`, `h.2` or `Mixed_7c`; layers
    count in the order in which their first ops stand. Names of embeddings, and of attention outside
    numbered scopes, mean the first layer below the same outermost scope, or of all; names of
    projections and losses mean the last one.
    A gradient's op, `grad/NAME/...`, is of the layer of the op `NAME`, and what clips and updates
    a variable, `clip/NAME/...` and `update/NAME/...`, of the layer of the variable.

    Args:
        names: of the ops, in a topological order.
    """
    number_of: dict[str, int] = {}
    first_of: dict[str, int] = {}
    plain = [_plain(name) for name in names]
    layers = np.full(len(names), -1, np.int32)
    for n, name in enumerate(plain):
        match = _NUMBERED.search(name)
        if match is not None:
            layers[n] = number_of.setdefault(name[: match.end()].lower(), len(number_of))
            first_of.setdefault(name.partition(".")[0], int(layers[n]))
    if not number_of:
        return layers
    for n in np.flatnonzero(layers < 0).tolist():
        if _FIRST.search(plain[n]):
            layers[n] = first_of.get(plain[n].partition(".")[0], 0)
        elif _LAST.search(plain[n]):
            layers[n] = len(number_of) - 1
    return layers


def _plain(name: str) -> str:
    """The name with its scopes behind dots, without what training put in front of it."""
    name = name.removeprefix("grad/").removeprefix("clip/").removeprefix("update/")
    return ".".join(part for part in name.split("/") if part)


def build_step(
    graph: ir.Graph,
    states: Sequence[StatePair],
    spec: BoxSpec,
    chosen: Mapping[str, CostModel] | None = None,
) -> StepProblem:
    """The ops of a graph, with their times in a box.

    What depends on no input is there before the step: it is no op, and what others read of it are
    weights that lie ready. Values that nobody reads and that are no outputs are left out.

    Args:
        graph: with static shapes, in topological order; left unchanged.
        states: its variables: graph inputs, and the outputs that follow them.
        spec: the box.
        chosen: cost models that hold instead of those of the box, by kind of device.

    Raises:
        CompileError: MCM-D010 for ops that no device runs, one diagnostic per op type; MCM-D011 for
            values of unknown size; as the chosen cost models.
    """
    parts = step_parts(graph, states)
    box = spec.box
    times = np.zeros((len(parts.names), len(spec.kinds)))
    of_nodes = times[len(parts.names) - len(parts.nodes) :]
    of_nodes[:] = op_times(parts.nodes, spec.kinds, chosen or {})
    check_runs(parts.nodes, of_nodes, spec)
    allowed = np.isfinite(times)[:, box.kind_of]
    inputs = np.array([kind == INPUT for kind in parts.op_types], np.bool_)
    allowed[inputs] = False
    allowed[inputs, box.host] = True
    first = [parts.first_of(op) for op in range(len(parts.names))]
    together = np.unique(first, return_inverse=True)[1].reshape(-1).astype(np.int32)
    # Some device is left: of ops that do not run anywhere, a set has one at most.
    allowed = common_devices(together, allowed)[together]
    return StepProblem(
        names=tuple(parts.names),
        op_types=tuple(parts.op_types),
        time_s=times,
        value_names=tuple(parts.value_names),
        value_bytes=np.array(parts.value_bytes, np.int64),
        producer=np.array(parts.producer, np.int32),
        view_of=np.array(parts.view_of, np.int32),
        stays=np.array(parts.stays, np.bool_),
        kept=np.array(parts.kept, np.bool_),
        read_begin=np.cumsum([0, *map(len, parts.reads)]).astype(np.int64),
        reads=np.array([v for values in parts.reads for v in sorted(values)], np.int32),
        together=together,
        allowed=allowed,
        layer=_spread(layers_of(parts.names), together),
    )


def check_runs(nodes: Sequence[ir.Node], times: Floats, spec: BoxSpec) -> None:
    """Checks that some device runs each op.

    Raises:
        CompileError: MCM-D010, one diagnostic per op type.
    """
    lost = [nodes[n] for n in np.flatnonzero(~np.isfinite(times).any(axis=1)).tolist()]
    if not lost:
        return
    kinds = ", ".join(kind.name for kind in spec.kinds)
    counts = Counter(map(op_name, lost))
    firsts = {op_name(node): node for node in reversed(lost)}
    raise CompileError(
        [
            Diagnostic(
                "MCM-D010",
                f"no device of the host runs {quote(name)}, of which there are {count} in the "
                f"model; its kinds are {kinds}",
                at=f"op {quote(firsts[name].name or name)}",
            )
            for name, count in sorted(counts.items())
        ]
    )


def _spread(layer: Ints, together: Ints) -> Ints:
    """Layers, those of ops without one from what they run together with."""
    of_group = np.full(int(together.max(initial=-1)) + 1, -1, np.int32)
    np.maximum.at(of_group, together, layer)
    return np.where(layer >= 0, layer, of_group[together]).astype(np.int32)
