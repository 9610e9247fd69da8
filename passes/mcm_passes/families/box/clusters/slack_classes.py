"""Clusters divided by how long their ops may wait: what is urgent apart from what is not.

In training steps the ops of one weight are of different kinds: those on the way to the loss and
back are waited for, while the weight's own gradient is needed at the very end alone. Where devices
are busy with what nobody waits for, others may take it (our derivation).
"""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit
from mcm_compiler.arrays.types import Floats, Ints
from mcm_compiler.contracts.boxes.box import StepProblem

CLASS_BOUNDS = (0.02, 0.3)
"""Between classes: slack as a share of the longest path."""


def slacks(problem: StepProblem, duration: Floats, depth: Floats) -> Floats:
    """`[N]`, how much later each op may begin before the longest path becomes longer.

    Args:
        problem: what is placed.
        duration: `[N]`.
        depth: `[N]`, see `depths`.
    """
    tail = tails(np.ascontiguousarray(problem.edges), duration)
    through = depth + tail
    return through.max(initial=0.0) - through


def by_slack(label: Ints, together: Ints, slack: Floats, longest: float) -> Ints:
    """`[N]`, clusters divided by classes of slack; numbers without gaps, by cluster, then class.

    Args:
        label: `[N]`, cluster of each op.
        together: `[N]`, see `StepProblem`; ops that run together stay so, where the first belongs.
        slack: `[N]`.
        longest: path.
    """
    first = np.unique(together, return_index=True)[1]
    classes = np.digitize(slack, np.array(CLASS_BOUNDS) * longest)[first[together]]
    keys = label.astype(np.int64) * (len(CLASS_BOUNDS) + 1) + classes
    return np.unique(keys, return_inverse=True)[1].astype(np.int32)


@entry_njit
def tails(pairs: Ints, duration: Floats) -> Floats:
    """`[N]`, the longest path from each op to the end, itself included.

    Args:
        pairs: `[E, 2]`, ops and their readers, ascending.
        duration: `[N]`.
    """
    tail = duration.copy()
    # Backwards in the order of sources, so that all that an op's readers lead to is known.
    for e in range(len(pairs) - 1, -1, -1):
        source, target = pairs[e, 0], pairs[e, 1]
        tail[source] = max(tail[source], duration[source] + tail[target])
    return tail
