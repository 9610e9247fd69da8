"""Random steps and boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mcm_compiler.contracts.boxes.box import INPUT, VARIABLE, Box, StepProblem
from mcm_compiler.machines.machine_builder import joined_devices


def box_of(
    kinds: Sequence[str],
    devices: Sequence[str],
    kind_of: np.ndarray,
    memory_bytes: np.ndarray,
    copy_bytes_per_s: np.ndarray,
    copy_latency_s: np.ndarray,
) -> Box:
    """The box of tables."""
    tables = memory_bytes, copy_bytes_per_s, copy_latency_s, kind_of
    return Box(tuple(kinds), tuple(devices), joined_devices("box", *tables))


def random_box(rng: np.random.Generator, gpus: int = 2) -> Box:
    """A CPU and some faster devices of one kind, with little memory."""
    devices = gpus + 1
    rate = rng.uniform(1.0, 20.0, (devices, devices))
    latency = rng.choice([0.0, 0.5], (devices, devices))
    np.fill_diagonal(rate, np.inf)
    np.fill_diagonal(latency, 0.0)
    return box_of(
        kinds=("slow", "fast"),
        devices=("cpu:0", *(f"gpu:{number}" for number in range(gpus))),
        kind_of=np.array([0] + [1] * gpus, np.int32),
        memory_bytes=np.array([10_000] + [int(rng.integers(100, 400))] * gpus, np.int64),
        copy_bytes_per_s=rate,
        copy_latency_s=latency,
    )


def with_memory(box: Box, memory_bytes: np.ndarray) -> Box:
    """The box with other memories."""
    return replace(box, machine=replace(box.machine, memory_bytes=memory_bytes))


def with_copies(box: Box, rate: np.ndarray, latency: np.ndarray) -> Box:
    """The box with other rates and latencies of copies."""
    return box_of(box.kinds, box.devices, box.kind_of, box.memory_bytes, rate, latency)


def random_step(rng: np.random.Generator, box: Box, ops: int = 30) -> StepProblem:
    """A step with variables, inputs, weights, views, updates, groups, and durations that tie."""
    types = [INPUT if n < 2 else VARIABLE if n < 4 else "MatMul" for n in range(ops)]
    producer: list[int] = [-1, -1]
    view_of: list[int] = [-1, -1]
    reads: list[list[int]] = []
    for n in range(ops):
        known = len(producer)
        chosen = [] if n < 4 else sorted(set(rng.integers(max(0, known - 12), known, 3).tolist()))
        reads.append(chosen)
        for index in range(int(rng.integers(1, 3)) if n >= 4 else 1):
            producer.append(n)
            view = chosen and index == 0 and rng.random() < 0.3
            view_of.append(int(rng.choice(chosen)) if view else -1)
    values = len(producer)
    made_by = np.array(producer, np.int32)
    slow = rng.integers(0, 6, ops) * 1.0
    slow[:4] = 0.0
    time = np.stack([slow, np.ceil(slow / 3)], axis=1).astype(np.float64)
    together = np.arange(ops)
    for _ in range(2):
        one, other = rng.integers(2, ops, 2)
        together[together == together[one]] = together[other]
    together = np.unique(together, return_inverse=True)[1].astype(np.int32)
    allowed = np.ones((ops, box.num_devices), np.bool_)
    allowed[:2] = False
    allowed[:2, box.host] = True
    barred = int(together[rng.integers(4, ops)])
    if not (together[:4] == barred).any():
        allowed[together == barred, 0] = False
    return StepProblem(
        names=tuple(f"op{n}" for n in range(ops)),
        op_types=tuple(types),
        time_s=time,
        value_names=tuple(f"v{v}" for v in range(values)),
        value_bytes=rng.integers(0, 40, values).astype(np.int64),
        producer=made_by,
        view_of=np.array(view_of, np.int32),
        stays=np.isin(made_by, (2, 3)),
        kept=(rng.random(values) < 0.1) & (made_by >= 4),
        read_begin=np.cumsum([0, *map(len, reads)]).astype(np.int64),
        reads=np.array([v for chosen in reads for v in chosen], np.int32),
        together=together,
        allowed=allowed,
    )


def random_placements(rng: np.random.Generator, problem: StepProblem, count: int) -> np.ndarray:
    """`[count, N]`, placements that keep to `allowed` and `together`."""
    first = np.unique(problem.together, return_index=True)[1]
    allowed = problem.allowed[first]
    chosen = [rng.choice(np.flatnonzero(row), count) for row in allowed]
    return np.stack(chosen, axis=1)[:, problem.together].astype(np.int32)
