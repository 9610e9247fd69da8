"""The kernels that simulate a program, compiled before they are called.

See `mcm_compiler.processes.warm_up`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, get_type_hints

from numba import types

from mcm_compiler.contracts.partition import Bools, Ints
from mcm_hardware.event_graph.channel_arrays import ChannelArrays
from mcm_hardware.event_graph.graph import event_graph
from mcm_hardware.event_graph.performance import performance
from mcm_hardware.event_graph.program_arrays import Floats, Longs, ProgramArrays
from mcm_hardware.event_graph.stall_times import stall_times
from mcm_hardware.event_graph.steady_state import steady_state
from mcm_hardware.families.ring.batch.partition_evaluator import (
    PackageTables,
    ResultRows,
    evaluate_range,
)
from mcm_hardware.families.ring.batch.problem_tables import ProblemTables
from mcm_hardware.memory.low_memory_order import low_memory_order
from mcm_hardware.memory.offset_assignment import plan_offsets

LONGS = types.Array(types.int64, 1, "C")
FLOATS = types.Array(types.float64, 1, "C")
BOOLS = types.Array(types.boolean, 1, "C")
INTS = types.Array(types.int32, 1, "C")
ROWS = {
    INTS: types.Array(types.int32, 2, "C"),
    LONGS: types.Array(types.int64, 2, "C"),
    FLOATS: types.Array(types.float64, 2, "C"),
}
"""Arrays of two dimensions by those of one."""

_TYPES: dict[Any, Any] = {
    Ints: INTS,
    Longs: LONGS,
    Floats: FLOATS,
    Bools: BOOLS,
    int: types.int64,
    bool: types.boolean,
}


def warm_up() -> None:
    """Compiles what `parallelize`, `lower` and `simulate` call.

    The batch evaluator comes first, with the simulator's kernels that it calls: `parallelize` needs
    it once its own search has been compiled. Of the others the simulator's precede those of
    `lower`: the process that needs all of them begins with the latter, so that the two meet in the
    middle.
    """
    program, channels = _tuple_type(ProgramArrays), _tuple_type(ChannelArrays)
    graph = _compiled(event_graph, program, channels)
    _compiled(performance, graph)
    tables, package = _tuple_type(ProblemTables), _tuple_type(PackageTables)
    results = _tuple_type(ResultRows, rows=("high_water_bytes", "chip_busy_s", "link_busy_s"))
    _compiled(evaluate_range, tables, package, ROWS[INTS], types.int64, types.int64, results)
    steady = _compiled(steady_state, graph, types.float64, types.int64, types.int64, types.int64)
    _compiled(stall_times, program, graph, steady, types.float64)
    _compiled(plan_offsets, LONGS, LONGS, LONGS, types.int64)
    _compiled(low_memory_order, LONGS, LONGS, LONGS, LONGS, LONGS, LONGS, BOOLS)


def _tuple_type(named: Any, rows: Collection[str] = ()) -> types.NamedTuple:
    """What numba takes a named tuple for whose fields are arrays, numbers and such tuples.

    Args:
        named: the class.
        rows: fields that are arrays of two dimensions.
    """
    hints = get_type_hints(named)
    read_only = named is ChannelArrays
    fields: list[Any] = []
    for field in named._fields:
        plain = _TYPES.get(hints[field]) or _tuple_type(hints[field])
        if read_only and isinstance(plain, types.Array):
            plain = plain.copy(readonly=True)
        fields.append(ROWS[plain] if field in rows else plain)
    return types.NamedTuple(tuple(fields), named)


def _compiled(kernel: Any, *arguments: Any) -> Any:
    """Compiles a kernel and returns the type of what it returns."""
    kernel.compile(arguments)
    return kernel.overloads[arguments].signature.return_type
