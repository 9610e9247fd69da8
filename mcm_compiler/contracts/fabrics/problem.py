"""The contract of what is laid out on a fabric: units, and the streams between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mcm_compiler.arrays.types import Ints, Longs

OP_KINDS = (
    "product",
    "attention",
    "elementwise",
    "reduction",
    "normalization",
    "softmax",
    "window",
    "movement",
    "weights",
    "buffer",
    "input",
    "output",
)
"""Work of units. Compute: matrix products with weights, and of two activations; element by element;
reductions; normalisations; softmax; pooling and other windows; moving data. Memory: holding
weights; holding samples between stages. I/O: reading from and writing to memory channels."""


@dataclass(frozen=True, eq=False)
class MappingProblem:
    """U units of G stages and E streams with L destinations in all. All arrays are read-only.

    The chip works on one *sample* after another (one inference of its subgraph), and its units on
    several samples at once. What each unit does with a sample stands in `measurement`.

    Attributes:
        name: for people.
        stages: `[G]`, names of the stages along the flow of data.
        kind: `[U]`, `COMPUTE`, `MEMORY` or `IO`: the kind of site that a unit needs.
        op: `[U]`, index into `OP_KINDS`.
        stage: `[U]`, index into `stages`; a unit that holds what a stage makes belongs to it, as
            one does that holds weights for it.
        firings: `[U]`, how often a compute unit fires per sample; 0 for other units.
        cycles: `[U]`, for how many cycles each time; 0 for other units.
        burst: `[U]`, what a compute unit makes leaves it after this many firings, and after the
            last of a sample; 0 for other units.
        depth: `[U]`, samples that a memory unit between stages holds at once; 0 for other units,
            and for those that hold weights.
        memory_bytes: `[U]`, SRAM that a memory unit needs; 0 for other units.
        source: `[E]`, the unit that each stream leaves.
        leaf_ptr: `[E + 1]`, CSR of `leaf` by stream.
        leaf: `[L]`, the units that it goes to, all of it to each; distinct within a stream.
        flits: `[E]`, of a stream per sample; at least 1.
    """

    name: str
    stages: tuple[str, ...]
    kind: Ints
    op: Ints
    stage: Ints
    firings: Longs
    cycles: Longs
    burst: Longs
    depth: Ints
    memory_bytes: Longs
    source: Ints
    leaf_ptr: Ints
    leaf: Ints
    flits: Longs

    def __post_init__(self) -> None:
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    @property
    def num_units(self) -> int:
        """U."""
        return len(self.kind)

    @property
    def num_stages(self) -> int:
        """G."""
        return len(self.stages)

    @property
    def num_streams(self) -> int:
        """E."""
        return len(self.source)


def same_problem(one: MappingProblem, other: MappingProblem) -> bool:
    """Return whether two problems differ only in names, so that they have the same mappings."""
    return one.num_stages == other.num_stages and all(
        np.array_equal(value, getattr(other, name))
        for name, value in vars(one).items()
        if isinstance(value, np.ndarray)
    )


@dataclass(frozen=True, eq=False)
class Mappings:
    """B mappings of one problem.

    Attributes:
        site: `[B, U]`, the site of each unit.
        turn: `[B, E]`, how each stream goes through the mesh: 0 along its row first, then along
            columns; 1 along its column first. The paths to all destinations of a stream are one
            tree, as they turn alike.
    """

    site: Ints
    turn: Ints

    def __len__(self) -> int:
        """B."""
        return len(self.site)

    def __getitem__(self, index: int) -> Mappings:
        """One of them, as a batch of one."""
        return Mappings(self.site[index][None], self.turn[index][None])

    @classmethod
    def stacked(cls, parts: list[Mappings]) -> Mappings:
        """Several batches as one."""
        return cls(
            np.concatenate([part.site for part in parts]),
            np.concatenate([part.turn for part in parts]),
        )
