"""Problems of the small fabric's kind in all sizes, drawn from a seed; legal by construction."""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts.fabrics.fabric import COMPUTE, IO, MEMORY, OP_KINDS, MappingProblem


def drawn_problem(seed: int, stages: int = 3, widest: int = 4) -> MappingProblem:
    """A chain of stages: compute units that share a product, and a memory unit behind each stage.

    Every stage but the last also keeps its result for the stage after the next one, so that
    streams have several destinations and buffers differ in depth.
    """
    rng = np.random.default_rng(seed)
    kind, op, stage = [IO, MEMORY], ["input", "buffer"], [0, 0]
    firings, cycles, burst, depth = [0, 0], [0, 0], [0, 0], [0, 2]
    flits = [int(rng.integers(8, 65))]
    links = [(0, [1])]
    buffers = [1]

    def unit(of: int, name: str, at: int, *work: int) -> int:
        kind.append(of)
        op.append(name)
        stage.append(at)
        for values, value in zip((firings, cycles, burst, depth), work, strict=True):
            values.append(value)
        return len(kind) - 1

    for number in range(1, stages + 1):
        width = int(rng.integers(1, widest + 1))
        fires = int(rng.integers(4, 17))
        length, together = int(rng.integers(1, 20)), int(rng.integers(1, 5))
        workers = [
            unit(COMPUTE, "product", number, fires, length, together, 0) for _ in range(width)
        ]
        links.append((buffers[-1], list(workers)))
        flits.append(int(rng.integers(4, fires * 4)))
        if number > 1 and rng.random() < 0.5:
            links.append((buffers[-2], [workers[0]]))
            flits.append(int(rng.integers(4, fires * 2)))
        for worker in workers:
            if rng.random() < 0.7:
                links.append((unit(MEMORY, "weights", number, 0, 0, 0, 0), [worker]))
                flits.append(int(rng.integers(4, fires * 8)))
        buffers.append(unit(MEMORY, "buffer", number, 0, 0, 0, 3))
        for worker in workers:
            links.append((worker, [buffers[-1]]))
            flits.append(int(rng.integers(2, 33)))
    sinks = [unit(IO, "output", stages, 0, 0, 0, 0)]
    links.append((buffers[-1], sinks))
    flits.append(int(rng.integers(8, 65)))
    return MappingProblem(
        name=f"drawn-{seed}",
        stages=tuple(f"stage {number}" for number in range(stages + 1)),
        kind=np.array(kind, np.int32),
        op=np.array([OP_KINDS.index(name) for name in op], np.int32),
        stage=np.array(stage, np.int32),
        firings=np.array(firings, np.int64),
        cycles=np.array(cycles, np.int64),
        burst=np.array(burst, np.int64),
        depth=np.array(depth, np.int32),
        memory_bytes=np.zeros(len(kind), np.int64),
        source=np.array([link[0] for link in links], np.int32),
        leaf_ptr=np.concatenate([[0], np.cumsum([len(link[1]) for link in links])]).astype(
            np.int32
        ),
        leaf=np.array([unit for link in links for unit in link[1]], np.int32),
        flits=np.array(flits, np.int64),
    )
