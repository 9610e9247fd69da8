"""Programs that somebody tampered with: diagnosed, or played to a sensible end."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mcm_compiler.contracts.program import ChipProgram, Kernel, LoweredProgram, Transfer
from mcm_compiler.contracts.target import HOST, OFF_PACKAGE
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.text.json_text import UnreadableError, record_of
from mcm_hardware.families.ring.ring_target import mcm36
from tests.generators.small_rings import ring_simulator

SPEC = replace(mcm36().spec, stream_bytes_per_s=1e10, stream_latency_s=1e-6, host_io="ends")

GOOD: dict[str, Any] = LoweredProgram(
    "unit",
    (
        ChipProgram(0, (Kernel("k", ("n",), 3e-6, (0,), (1, 2), "array", 1e-7),), (), 64, 0),
        ChipProgram(
            1,
            (
                Kernel("l", ("o",), 2e-6, (1, 5), (3,), "vector", 1e-7),
                Kernel("m", ("p",), 1e-6, (1, 6), (), "memory", 1e-7),
            ),
            (),
            64,
            0,
        ),
        ChipProgram(3, (Kernel("q", ("r",), 2e-6, (2, 4), (7,), "none", 0.0),), (), 64, 0),
    ),
    (
        Transfer("x", HOST, 0, 4096, 2),
        Transfer("a", 0, 1, 4096, 2),
        Transfer("b", 0, 3, 4096, 1),
        Transfer("y", 1, HOST, 4096, 2),
        Transfer("a", 1, 3, 4096, 2, after=1),
        Transfer("v", OFF_PACKAGE, 1, 4096, 1, reuses=6),
        Transfer("w", OFF_PACKAGE, 1, 4096, 1, reuses=5),
        Transfer("z", 3, HOST, 4096, 2),
    ),
).to_dict()

HOSTILE = st.one_of(
    st.integers(-3, 9),
    st.sampled_from(
        [2**31, 2**63, -(2**63), 10**12, 10**30, math.nan, math.inf, -math.inf, 1e300, 5e-324, -0.5]
    ),
    st.sampled_from([None, "", "x", [], [0], [7, 7, 7], {}]),
)


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of everything in a JSON value."""
    items = data.items() if isinstance(data, dict) else enumerate(data)
    found: list[tuple[Any, ...]] = []
    for key, value in items:
        found.append((*path, key))
        if isinstance(value, dict | list | tuple):
            found += places(value, (*path, key))
    return found


PLACES = places(GOOD)


@given(st.lists(st.tuples(st.sampled_from(PLACES), HOSTILE, st.integers(0, 3)), max_size=4))
@settings(max_examples=300)
def test_a_changed_program_is_diagnosed_or_runs(changes):
    data = json.loads(json.dumps(copy.deepcopy(GOOD)))
    for path, value, how in changes:
        parent: Any = data
        try:
            for key in path[:-1]:
                parent = parent[key]
            if how == 0 and isinstance(parent, list):
                del parent[path[-1]]
            elif how == 1 and isinstance(parent, list):
                parent.append(copy.deepcopy(parent[path[-1]]))
            else:
                parent[path[-1]] = value
        except (KeyError, IndexError, TypeError):
            continue  # An earlier change took the place away.
    try:
        program = record_of(data, LoweredProgram)
    except UnreadableError:
        return  # What the reader of the folder diagnoses.
    try:
        result = ring_simulator(SPEC).run(program, inferences=4)
    except CompileError as error:
        codes = {d.code for d in error.diagnostics}
        assert codes <= {"MCM-T010", "MCM-T011", "MCM-T012", "MCM-T013"}
        return
    assert 0 < result.period_s < math.inf
    assert 0 < result.latency_s < math.inf
