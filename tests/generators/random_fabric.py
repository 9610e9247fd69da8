"""Random fabrics, and random problems that are legal on them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from mcm_compiler.contracts.fabrics.fabric import (
    COMPUTE,
    IO,
    MEMORY,
    OP_KINDS,
    Fabric,
    MappingProblem,
)
from tests.generators.small_fabric import small_fabric


@dataclass
class _Draft:
    """Units and streams as they are added."""

    kind: list[int] = field(default_factory=list[int])
    op: list[str] = field(default_factory=list[str])
    stage: list[int] = field(default_factory=list[int])
    work: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])
    depth: list[int] = field(default_factory=list[int])
    streams: list[tuple[int, list[int], int]] = field(
        default_factory=list[tuple[int, list[int], int]]
    )

    def add(
        self, kind: int, op: str, stage: int, work: tuple[int, int, int] = (0, 0, 0), depth: int = 0
    ) -> int:
        """A unit; its number."""
        self.kind.append(kind)
        self.op.append(op)
        self.stage.append(stage)
        self.work.append(work)
        self.depth.append(depth)
        return len(self.kind) - 1

    def problem(self, stages: int) -> MappingProblem:
        """All of it as arrays."""
        work = np.array(self.work, np.int64)
        memory = np.array(self.kind) == MEMORY
        counts = [len(leaves) for _, leaves, _ in self.streams]
        return MappingProblem(
            name="random",
            stages=tuple(f"stage {k}" for k in range(stages)),
            kind=np.array(self.kind, np.int32),
            op=np.array([OP_KINDS.index(name) for name in self.op], np.int32),
            stage=np.array(self.stage, np.int32),
            firings=work[:, 0].copy(),
            cycles=work[:, 1].copy(),
            burst=work[:, 2].copy(),
            depth=np.array(self.depth, np.int32),
            memory_bytes=np.where(memory, 1024, 0).astype(np.int64),
            source=np.array([source for source, _, _ in self.streams], np.int32),
            leaf_ptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
            leaf=np.array([unit for _, leaves, _ in self.streams for unit in leaves], np.int32),
            flits=np.array([flits for _, _, flits in self.streams], np.int64),
        )


def random_fabric(rng: np.random.Generator) -> Fabric:
    """The small one, larger or smaller, with physics drawn anew."""
    base = small_fabric(int(rng.integers(4, 6)), int(rng.integers(4, 7)))
    return replace(
        base,
        banks=int(rng.integers(1, 6)),
        hop_cycles=int(rng.integers(1, 5)),
        fifo_flits=int(rng.integers(1, 6)),
        window_flits=int(rng.integers(4, 17)),
        output_flits=int(rng.integers(1, 6)),
    )


def random_problem(rng: np.random.Generator, fabric: Fabric) -> MappingProblem:
    """Stages in a row, each of a few units behind a buffer, now and then joined with an old one.

    Args:
        rng: draws everything.
        fabric: one from `random_fabric`; the problem fits it.
    """
    draft = _Draft()
    entry = draft.add(IO, "input", 0)
    held = [draft.add(MEMORY, "buffer", 0, depth=int(rng.integers(1, 4)))]
    sizes = [int(rng.integers(2, 24))]
    draft.streams.append((entry, [held[0]], sizes[0]))
    stages = int(rng.integers(1, 4))
    for stage in range(1, stages + 1):
        _add_stage(draft, rng, fabric, stage, held, sizes)
    out = draft.add(IO, "output", stages)
    draft.streams.append((held[-1], [out], sizes[-1]))
    return draft.problem(stages + 1)


def _add_stage(
    draft: _Draft,
    rng: np.random.Generator,
    fabric: Fabric,
    stage: int,
    held: list[int],
    sizes: list[int],
) -> None:
    """One to two units that read the last buffer, weights and perhaps the first buffer."""
    least = -(-max(sizes) // fabric.window_flits)
    units: list[int] = []
    for _ in range(int(rng.integers(1, 3))):
        firings = int(rng.integers(least, least + 6))
        work = (firings, int(rng.integers(1, 9)), int(rng.integers(1, firings + 1)))
        units.append(draft.add(COMPUTE, "product", stage, work))
    draft.streams.append((held[-1], list(units), sizes[-1]))
    if len(held) > 1 and rng.random() < 0.5:
        draft.streams.append((held[0], list(units), sizes[0]))
    if rng.random() < 0.6:
        weights = draft.add(MEMORY, "weights", stage)
        few = min(int(draft.work[u][0]) for u in units) * fabric.window_flits
        draft.streams.append((weights, list(units), int(rng.integers(1, min(few, 20) + 1))))
    held.append(draft.add(MEMORY, "buffer", stage, depth=int(rng.integers(1, 4))))
    made = [int(rng.integers(1, 16)) for _ in units]
    for unit, flits in zip(units, made, strict=True):
        draft.streams.append((unit, [held[-1]], flits))
    sizes.append(int(rng.integers(1, 24)))
