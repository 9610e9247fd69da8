"""The kernels that judge a program, compiled before they are called; see `mcm_compiler.warm_up`."""

from __future__ import annotations

from typing import Any, get_type_hints

from numba import types

from mcm_hardware.event_graph import event_graph
from mcm_hardware.low_memory_order import low_memory_order
from mcm_hardware.offset_assignment import plan_offsets
from mcm_hardware.performance import performance
from mcm_hardware.program_arrays import Floats, LinkArrays, Longs, ProgramArrays
from mcm_hardware.stall_times import stall_times
from mcm_hardware.steady_state import steady_state

LONGS = types.Array(types.int64, 1, "C")
FLOATS = types.Array(types.float64, 1, "C")
BOOLS = types.Array(types.boolean, 1, "C")

_TYPES: dict[Any, Any] = {Longs: LONGS, Floats: FLOATS, int: types.int64, bool: types.boolean}


def warm_up() -> None:
    """Compiles what `lower` and `simulate` call.

    The simulator's kernels come first: the process that needs all of them begins with those of
    `lower`, so that the two meet in the middle.
    """
    program, links = _tuple_type(ProgramArrays), _tuple_type(LinkArrays)
    graph = _compiled(event_graph, program, links)
    _compiled(performance, graph)
    steady = _compiled(steady_state, graph, types.float64, types.int64, types.int64, types.int64)
    _compiled(stall_times, program, graph, steady, types.float64)
    _compiled(plan_offsets, LONGS, LONGS, LONGS, types.int64)
    _compiled(low_memory_order, LONGS, LONGS, LONGS, LONGS, LONGS, LONGS, BOOLS)


def _tuple_type(named: Any) -> types.NamedTuple:
    """What numba takes a named tuple for whose fields are plain arrays and numbers."""
    hints = get_type_hints(named)
    fields = [_TYPES[hints[field]] for field in named._fields]
    return types.NamedTuple(tuple(fields), named)


def _compiled(kernel: Any, *arguments: Any) -> Any:
    """Compiles a kernel and returns the type of what it returns."""
    kernel.compile(arguments)
    return kernel.overloads[arguments].signature.return_type
