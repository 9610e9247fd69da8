"""How often the bodies of loops run: from the graph, or as stated by options or a run with data.

A stated count is a property of the op, which passes and files keep. What neither a constant nor a
property gives is assumed, and no claim about time can rest on it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.graph.constants import subgraphs
from mcm_compiler.graph.estimated_dims import dim_size
from mcm_compiler.graph.static_shapes import static_dims

TRIP_COUNT_PROPERTY = "mcm.trip_count"
"""Key in `metadata_props` of a loop: how often its body runs, stated from outside the graph."""

MAX_TRIPS = 2**40
"""Where trip counts saturate; loops without end are written with the greatest integer."""

_ENDLESS = 2**62
_MAX_PEEKED_BYTES = 64
_MAX_VALUE_STEPS = 8
_SHOWN = 5


@dataclass(frozen=True)
class Trips:
    """How often a body runs at each execution of its op.

    Attributes:
        count: the number that costs are computed with.
        known: False where it is an assumption: data decide it, and none were given.
    """

    count: int
    known: bool


def trips_of(node: ir.Node) -> Trips:
    """Trip count of an op with bodies (ONNX: `Loop`, `Scan`, `SequenceMap`; `If` runs once).

    A stated count comes first. A `Loop` otherwise runs as often as its constant limit, which is
    known to be reached if its condition never becomes false; one without a limit is assumed to run
    once. A `Scan` runs once per element of the scanned axis, a `SequenceMap` once per element of
    its first sequence, which is assumed to be one where its length is open.
    """
    if (stated := stated_trips(node)) is not None:
        return Trips(min(stated, MAX_TRIPS), known=True)
    return _graph_trips(node)


def _graph_trips(node: ir.Node) -> Trips:
    """As `trips_of`, without a stated count."""
    if node.op_type == "Loop":
        limit = _constant(_operand(node, 0))
        if limit is None or not 0 <= limit < _ENDLESS:
            return Trips(1, known=False)
        return Trips(min(int(limit), MAX_TRIPS), known=limit == 0 or _never_stops(node))
    if node.op_type == "Scan":
        return Trips(min(_scanned(node), MAX_TRIPS), known=True)
    if node.op_type == "SequenceMap":
        length = _sequence_length(_operand(node, 0))
        return Trips(1 if length is None else length, known=length is not None)
    return Trips(1, known=True)


def stated_trips(node: ir.Node) -> int | None:
    """The count in the properties of an op; None without one, and for a text that is none."""
    text = node.metadata_props.get(TRIP_COUNT_PROPERTY)
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


def sequence_counts(graph: ir.Graph) -> dict[str, int]:
    """Lengths of sequences that the graph gives, by the loops over them.

    They are stated, as they are lost where another chip makes the sequence.
    """
    over = ((label, node) for label, node in loops_of(graph) if node.op_type == "SequenceMap")
    counts = ((label, _graph_trips(node)) for label, node in over)
    return {label: trips.count for label, trips in counts if trips.known}


def loops_of(graph: ir.Graph) -> list[tuple[str, ir.Node]]:
    """Every `Loop` and `SequenceMap` at any depth, by a name of its own.

    Names of nested ones are paths, such as `decoder/attention`; an op without a name goes by its
    type, and what is not unique gets a number.
    """
    found: list[tuple[str, ir.Node]] = []
    taken: set[str] = set()
    for path, node in _loops(graph, ""):
        label, number = path, 1
        while label in taken:
            number += 1
            label = f"{path}_{number}"
        taken.add(label)
        found.append((label, node))
    return found


def stated_counts(graph: ir.Graph) -> dict[str, int]:
    """Stated counts by the names of `loops_of`."""
    counts = ((label, stated_trips(node)) for label, node in loops_of(graph))
    return {label: count for label, count in counts if count is not None}


def state_trip_counts(graphs: Sequence[ir.Graph], counts: Mapping[str, int]) -> None:
    """Makes `counts` the stated counts of the same graph in several copies, and drops all others.

    Raises:
        CompileError: MCM-I056 for a name that no loop has, or a count that the graph contradicts.
    """
    known = dict(loops_of(graphs[-1]))
    hint = f"its loops: {', '.join(map(quote, known)) or 'none'}"
    at = "option trip-count"
    faults: list[Diagnostic] = []
    for name, count in counts.items():
        if name not in known:
            faults.append(Diagnostic("MCM-I056", f"the model has no loop {quote(name)}", at, hint))
        elif fault := _contradiction(name, known[name], count):
            without = f"leave --trip-count of {quote(name)} out"
            faults.append(Diagnostic("MCM-I056", fault, at, without))
    CompileError.raise_any(faults)
    for graph in graphs:
        for label, node in loops_of(graph):
            node.metadata_props.pop(TRIP_COUNT_PROPERTY, None)
            if label in counts:
                node.metadata_props[TRIP_COUNT_PROPERTY] = str(counts[label])


def _contradiction(name: str, loop: ir.Node, count: int) -> str:
    """Return how the graph of a loop contradicts `count`; empty if it does not."""
    own, limit = _graph_trips(loop), _constant(_operand(loop, 0))
    if own.known and own.count != min(count, MAX_TRIPS):
        return f"{quote(name)} runs {own.count:,} times with any data, not {count:,} times"
    if loop.op_type == "Loop" and limit is not None and 0 <= limit < count:
        return f"{quote(name)} runs at most {int(limit):,} times, not {count:,} times"
    return ""


def assumed_trips(graph: ir.Graph) -> dict[str, int]:
    """Counts that costs assume, by the names of `loops_of`; empty where all are known."""
    counts = ((label, trips_of(node)) for label, node in loops_of(graph))
    return {label: trips.count for label, trips in counts if not trips.known}


def assumption_text(assumed: Mapping[str, int]) -> str:
    """The assumed counts in words."""
    shown = [f"{quote(name)} runs {count} times" for name, count in assumed.items()]
    more = [f"{len(shown) - _SHOWN} more are assumed"] if len(shown) > _SHOWN else []
    listed = " and ".join(shown[:_SHOWN] + more)
    return f"data decide how often loops run, times assume that {listed}"


def assumption_warning(assumed: Mapping[str, int]) -> Diagnostic:
    """MCM-P019: loops whose counts costs assume."""
    name = next(iter(assumed))
    return Diagnostic(
        "MCM-P019",
        f"{assumption_text(assumed)}; no bound is claimed",
        at=f"node {quote(name)}",
        hint=f"--trip-count {shlex.quote(name + '=N')} states a count, --input FILE.npz counts a "
        "run with its data",
    )


def _loops(graph: ir.Graph, prefix: str) -> Iterator[tuple[str, ir.Node]]:
    for node in graph:
        # Most ops have no attributes, and this is asked of every op of a graph.
        if not node.attributes.data or not (bodies := subgraphs(node)):
            continue
        path = f"{prefix}{node.name or node.op_type}"
        if node.op_type in ("Loop", "SequenceMap") and node.domain in ("", "ai.onnx"):
            yield path, node
        for body in bodies:
            yield from _loops(body, f"{path}/")


def _operand(node: ir.Node, index: int) -> ir.Value | None:
    return node.inputs[index] if index < len(node.inputs) else None


def _constant(value: ir.Value | None) -> float | None:
    """The number that a constant of one element holds, or None."""
    if value is None:
        return None
    tensor = ir.convenience.get_const_tensor(value)
    if tensor is None or tensor.size != 1 or tensor.nbytes > _MAX_PEEKED_BYTES:
        return None
    array = tensor.numpy().reshape(-1)
    return float(array[0]) if array.dtype.kind in "biuf" else None


def _never_stops(loop: ir.Node) -> bool:
    """Return whether the condition of a `Loop` holds before the first trip and after every one."""
    start = _operand(loop, 1)
    if start is not None and not _constant(start):
        return False
    for body in subgraphs(loop):
        after: ir.Value | None = body.outputs[0]
        for _ in range(_MAX_VALUE_STEPS):
            if after is None or after is body.inputs[1] or _constant(after):
                break
            maker = after.producer()
            passes_on = maker is not None and maker.op_type in ("Identity", "Cast")
            after = maker.inputs[0] if maker is not None and passes_on else None
        if after is None or not (after is body.inputs[1] or _constant(after)):
            return False
    return True


def _scanned(scan: ir.Node) -> int:
    count = scan.attributes.get_int("num_scan_inputs", 0)
    axes = scan.attributes.get_ints("scan_input_axes", ())
    first = len(scan.inputs) - count
    value = _operand(scan, first) if count > 0 <= first else None
    dims = value.shape.dims if value is not None and value.shape is not None else ()
    axis = axes[0] if axes else 0
    return dim_size(dims[axis]) if -len(dims) <= axis < len(dims) else 1


def _sequence_length(sequence: ir.Value | None) -> int | None:
    maker = sequence.producer() if sequence is not None else None
    if maker is None:
        return None
    if maker.op_type == "SequenceConstruct":
        return len(maker.inputs)
    if maker.op_type == "SequenceEmpty":
        return 0
    if maker.op_type == "SequenceMap":
        return _sequence_length(_operand(maker, 0))
    if maker.op_type != "SplitToSequence":
        return None
    whole, split = maker.inputs[0], _operand(maker, 1)
    dims = static_dims(whole.shape) if whole is not None else None
    axis = maker.attributes.get_int("axis", 0)
    if dims is None or not -len(dims) <= axis < len(dims):
        return None
    if split is None:
        return dims[axis]
    if split.shape is not None and len(split.shape) == 1:
        return lengths[0] if (lengths := static_dims(split.shape)) else None
    piece = _constant(split)
    return -(-dims[axis] // int(piece)) if piece is not None and piece >= 1 else None
