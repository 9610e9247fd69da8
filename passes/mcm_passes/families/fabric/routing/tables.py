"""What kernels need of a problem and a fabric: places of sites, streams, and who has which."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.types import Ints, Longs
from mcm_compiler.contracts.fabrics.fabric import IO, KINDS, Fabric, MappingProblem


class Grid(NamedTuple):
    """Where S sites lie on a mesh.

    Attributes:
        rows: of switches.
        cols: of switches.
        row: `[S]`, of the switch of each site.
        col: `[S]`.
        channel: `[S]`, memory channel behind an I/O site; -1 for others.
        site_at: `[3, rows * cols]`, a site of each kind on each switch; -1 for none.
        site_ptr: `[4]`, CSR of `sites` by kind.
        sites: `[S]`, by kind, ascending.
    """

    rows: int
    cols: int
    row: Ints
    col: Ints
    channel: Ints
    site_at: Ints
    site_ptr: Ints
    sites: Ints


class Streams(NamedTuple):
    """E streams between U units, L destinations in all.

    Attributes:
        kind: `[U]`, of the site that each unit needs.
        source: `[E]`.
        leaf_ptr: `[E + 1]`, CSR of `leaf` by stream.
        leaf: `[L]`.
        flits: `[E]`, per sample.
        unit_ptr: `[U + 1]`, CSR of `touching` by unit.
        touching: streams that leave a unit or go to it, ascending, each once.
        io_flits: `[U]`, what an I/O unit moves through its memory channel; 0 for others.
    """

    kind: Ints
    source: Ints
    leaf_ptr: Ints
    leaf: Ints
    flits: Longs
    unit_ptr: Ints
    touching: Ints
    io_flits: Longs


class Tables(NamedTuple):
    """A problem on a fabric, for kernels.

    Attributes:
        grid: see there.
        streams: see there.
    """

    grid: Grid
    streams: Streams


def tables_of(problem: MappingProblem, fabric: Fabric) -> Tables:
    """Arrays of their own that may be written: kernels are compiled for one sort of array alone."""
    return Tables(_grid(fabric), _streams(problem))


def stream_of_leaf(problem: MappingProblem) -> Longs:
    """`[L]`, the stream that each destination belongs to."""
    return np.repeat(np.arange(problem.num_streams, dtype=np.int64), np.diff(problem.leaf_ptr))


def _grid(fabric: Fabric) -> Grid:
    site_at = np.full((len(KINDS), fabric.num_switches), -1, np.int32)
    site_at[fabric.kind, fabric.switch] = np.arange(fabric.num_sites, dtype=np.int32)
    counts = np.bincount(fabric.kind, minlength=len(KINDS))
    return Grid(
        fabric.rows,
        fabric.cols,
        (fabric.switch // fabric.cols).astype(np.int32),
        (fabric.switch % fabric.cols).astype(np.int32),
        fabric.channel.astype(np.int32),
        site_at,
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        np.argsort(fabric.kind, kind="stable").astype(np.int32),
    )


def _streams(problem: MappingProblem) -> Streams:
    streams = stream_of_leaf(problem)
    units = np.concatenate([problem.source, problem.leaf]).astype(np.int64)
    ends = np.concatenate([np.arange(problem.num_streams), streams])
    pairs = np.unique(units * problem.num_streams + ends)
    touching = pairs % problem.num_streams
    counts = np.bincount(pairs // problem.num_streams, minlength=problem.num_units)
    moved = np.zeros(problem.num_units, np.int64)
    np.add.at(moved, problem.source, problem.flits)
    np.add.at(moved, problem.leaf, problem.flits[streams])
    return Streams(
        problem.kind.astype(np.int32),
        problem.source.astype(np.int32),
        problem.leaf_ptr.astype(np.int32),
        problem.leaf.astype(np.int32),
        problem.flits.astype(np.int64),
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        touching.astype(np.int32),
        np.where(problem.kind == IO, moved, 0),
    )
