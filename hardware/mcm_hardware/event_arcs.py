"""The arcs of an event graph: a growing list, and its arrays."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Wait(IntEnum):
    """Why an activity waits for another."""

    RESOURCE = 0
    INPUT = 1
    BUFFER = 2


@dataclass(frozen=True, eq=False)
class ArcArrays:
    """Arcs in CSR form: activity a waits for arcs `ptr[a]:ptr[a + 1]`.

    Attributes:
        ptr: `[A + 1]`.
        source: `[E]`, activity waited for.
        weight_s: `[E]`, from its start until the wait is over.
        lag: `[E]`, how many inferences before.
        wait: `[E]`, a `Wait`.
    """

    ptr: Longs
    source: Longs
    weight_s: Floats
    lag: Longs
    wait: Longs


class ArcList:
    """Arcs between activities.

    Args:
        num_activities: activities are `0 .. num_activities - 1`.
    """

    def __init__(self, num_activities: int) -> None:
        self.num_activities = num_activities
        self._rows: list[tuple[int, int, float, int, int]] = []

    def add(self, source: int, target: int, weight_s: float, lag: int, wait: Wait) -> None:
        """Makes `target` wait for `source` of `lag` inferences before."""
        self._rows.append((target, source, weight_s, lag, int(wait)))

    def arrays(self) -> ArcArrays:
        """All arcs, by target."""
        table = np.array(self._rows, np.float64).reshape(-1, 5)
        table = table[np.argsort(table[:, 0], kind="stable")]
        counts = np.bincount(table[:, 0].astype(np.int64), minlength=self.num_activities)
        return ArcArrays(
            ptr=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
            source=table[:, 1].astype(np.int64),
            weight_s=np.ascontiguousarray(table[:, 2]),
            lag=table[:, 3].astype(np.int64),
            wait=table[:, 4].astype(np.int64),
        )

    def ready_order(self) -> Longs:
        """Activities by the time at which they could start in a lone inference.

        Arcs without lag decide; ties go to the one that comes first in a topological order, so
        that the answer is a topological order itself.

        Returns:
            `[A]`, activities.

        Raises:
            ValueError: if arcs without lag form a cycle, so that nothing would ever start.
        """
        after: list[list[tuple[int, float]]] = [[] for _ in range(self.num_activities)]
        waits = [0] * self.num_activities
        for target, source, weight, lag, _ in self._rows:
            if lag == 0:
                after[source].append((target, weight))
                waits[target] += 1
        ready_s = [0.0] * self.num_activities
        topological = [a for a, count in enumerate(waits) if count == 0]
        for source in topological:
            for target, weight in after[source]:
                ready_s[target] = max(ready_s[target], ready_s[source] + weight)
                waits[target] -= 1
                if waits[target] == 0:
                    topological.append(target)
        if len(topological) < self.num_activities:
            raise ValueError("activities wait for each other within one inference")
        places = np.array(topological, np.int64)
        return places[np.argsort(np.array(ready_s)[places], kind="stable")]
