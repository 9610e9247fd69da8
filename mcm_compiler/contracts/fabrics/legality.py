"""Which problems a fabric can hold, and which mappings of them are legal. Pure functions."""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.types import Ints, Longs
from mcm_compiler.contracts.fabrics.fabric import (
    COMPUTE,
    IO,
    KINDS,
    MEMORY,
    OP_KINDS,
    Fabric,
    MappingProblem,
    Mappings,
)


def faults_of_mapping(problem: MappingProblem, fabric: Fabric, mappings: Mappings) -> list[str]:
    """Why mappings are not legal: one sentence each; empty where all are.

    Every unit has a site of its own, of its kind; every stream turns one way or the other. Both are
    whole numbers.
    """
    site, turn = mappings.site, mappings.turn
    for name, array in (("sites", site), ("turns", turn)):
        if array.dtype.kind not in "iu":
            return [f"{name} are of the type {array.dtype}, and have to be whole numbers"]
    if site.shape != (len(site), problem.num_units):
        return [f"sites have the shape {site.shape}, and there are {problem.num_units} units"]
    if turn.shape != (len(site), problem.num_streams):
        return [f"turns have the shape {turn.shape}, and there are {problem.num_streams} streams"]
    faults: list[str] = []
    for row, unit in np.argwhere((site < 0) | (site >= fabric.num_sites))[:1]:
        faults.append(f"unit {unit} lies on site {site[row, unit]} of {fabric.num_sites}")
    if faults:
        return faults
    for row, unit in np.argwhere(fabric.kind[site] != problem.kind)[:1]:
        place = site[row, unit]
        wanted, found = KINDS[problem.kind[unit]], KINDS[fabric.kind[place]]
        faults.append(f"unit {unit} needs a site for {wanted}, and {place} is one for {found}")
    ordered = np.sort(site, axis=1)
    for row, place in np.argwhere(ordered[:, 1:] == ordered[:, :-1])[:1]:
        faults.append(f"several units lie on site {ordered[row, place]}")
    for row, stream in np.argwhere((turn != 0) & (turn != 1))[:1]:
        faults.append(f"stream {stream} turns {turn[row, stream]}, which is neither 0 nor 1")
    return faults


def faults_of_problem(problem: MappingProblem, fabric: Fabric) -> list[str]:
    """Why a problem is not one that a fabric runs without deadlock: one sentence each.

    - Units fit in number and memory; stages, kinds and numbers are in range.
    - Between compute units lie memory units, so that a stage never waits for one that waits for it.
    - Stages follow each other: what a stage reads was made by stages before it.
    - Compute units that one stream goes to are of one stage: credits keep all its destinations
      together, and one stage would wait for the other.
    - A firing needs no more flits of a stream than its window holds.
    """
    faults = _out_of_range(problem)
    if faults:
        return faults
    for kind, name in enumerate(KINDS):
        wanted, there = int(np.sum(problem.kind == kind)), len(fabric.of_kind(kind))
        if wanted > there:
            faults.append(f"{wanted} {name} units are needed, and there are {there}")
    for unit in np.flatnonzero(problem.memory_bytes > fabric.memory_bytes)[:1]:
        needs = problem.memory_bytes[unit]
        faults.append(f"unit {unit} needs {needs} bytes, and a unit has {fabric.memory_bytes}")
    stream = problem.stream_of_leaf
    source = problem.source[stream]
    faults += _wrong_ends(problem, source)
    faults += _several_stages(problem, stream)
    compute = problem.kind[problem.leaf] == COMPUTE
    firings = np.maximum(problem.firings[problem.leaf], 1)
    each = np.where(compute, -(-problem.flits[stream] // firings), 0)
    for leaf in np.flatnonzero(each > fabric.window_flits)[:1]:
        faults.append(
            f"unit {problem.leaf[leaf]} reads {each[leaf]} flits of stream {stream[leaf]} at once, "
            f"and a window holds {fabric.window_flits}"
        )
    return faults


def _wrong_ends(problem: MappingProblem, source: Ints) -> list[str]:
    """Streams between units that no stream may lead between; at most one of each sort."""
    leaf = problem.leaf
    between = (problem.kind[source] == COMPUTE) & (problem.kind[leaf] == COMPUTE)
    back = problem.stage[leaf] < problem.stage[source]
    same = problem.stage[leaf] == problem.stage[source]
    own = (problem.kind[leaf] != IO) & same & (problem.depth[source] > 0)
    holds_none = (problem.kind[leaf] == MEMORY) & (problem.depth[leaf] == 0)
    reads, sends = np.zeros((2, problem.num_units), bool)
    reads[leaf] = True
    sends[problem.source] = True
    lonely = (problem.depth > 0) & ~(reads & sends)
    idle = (problem.kind == COMPUTE) & ~reads
    both = (problem.kind == IO) & reads & sends
    return [
        *(
            f"unit {source[k]} sends to unit {leaf[k]} with no memory between"
            for k in np.flatnonzero(between)[:1]
        ),
        *(
            f"unit {source[k]} sends to unit {leaf[k]} of a stage that is not after it"
            for k in np.flatnonzero(back | own)[:1]
        ),
        *(f"unit {leaf[k]} receives, and holds no sample" for k in np.flatnonzero(holds_none)[:1]),
        *(
            f"unit {unit} has no stream that it needs, or one too many"
            for unit in np.flatnonzero(lonely | idle | ~(reads | sends) | both)[:1]
        ),
    ]


def _several_stages(problem: MappingProblem, stream: Longs) -> list[str]:
    """The first stream that goes to compute units of several stages."""
    first = np.full(problem.num_streams, problem.num_stages)
    last = np.full(problem.num_streams, -1)
    computes = problem.kind[problem.leaf] == COMPUTE
    stage = problem.stage[problem.leaf[computes]]
    np.minimum.at(first, stream[computes], stage)
    np.maximum.at(last, stream[computes], stage)
    return [
        f"stream {e} goes to compute units of the stages {first[e]} and {last[e]}"
        for e in np.flatnonzero(first < last)[:1]
    ]


def _out_of_range(problem: MappingProblem) -> list[str]:
    units, streams = problem.num_units, problem.num_streams
    per_unit = ("op", "stage", "firings", "cycles", "burst", "depth", "memory_bytes")
    for name in per_unit:
        if len(getattr(problem, name)) != units:
            return [f"{name} has {len(getattr(problem, name))} entries for {units} units"]
    if units == 0 or streams == 0:
        return ["there are no units, or no streams"]
    ptr = problem.leaf_ptr
    if len(problem.flits) != streams or len(ptr) != streams + 1:
        return ["streams, their flits and their destinations differ in number"]
    if ptr[0] != 0 or ptr[-1] != len(problem.leaf) or np.any(np.diff(ptr) < 1):
        return ["a stream has no destination, or destinations are counted wrongly"]
    compute, memory = problem.kind == COMPUTE, problem.kind == MEMORY
    checks = (
        ("kind", (problem.kind < 0) | (problem.kind >= len(KINDS))),
        ("op", (problem.op < 0) | (problem.op >= len(OP_KINDS))),
        ("stage", (problem.stage < 0) | (problem.stage >= problem.num_stages)),
        ("firings", np.where(compute, problem.firings < 1, problem.firings != 0)),
        ("cycles", np.where(compute, problem.cycles < 1, problem.cycles != 0)),
        ("burst", np.where(compute, problem.burst < 1, problem.burst != 0)),
        ("depth", np.where(memory, problem.depth < 0, problem.depth != 0)),
        ("memory_bytes", np.where(memory, problem.memory_bytes < 0, problem.memory_bytes != 0)),
    )
    faults = [
        f"{name} of unit {int(np.flatnonzero(wrong)[0])} is out of range"
        for name, wrong in checks
        if np.any(wrong)
    ]
    for name, ends in (("source", problem.source), ("leaf", problem.leaf)):
        if np.any((ends < 0) | (ends >= units)):
            faults.append(f"a {name} is no unit")
    if np.any(problem.flits < 1):
        faults.append(f"stream {int(np.argmin(problem.flits))} has no flits")
    stream = np.repeat(np.arange(streams, dtype=np.int64), np.diff(ptr))
    if len(np.unique(stream * units + problem.leaf)) != len(problem.leaf):
        faults.append("a stream goes to a unit twice")
    return faults
