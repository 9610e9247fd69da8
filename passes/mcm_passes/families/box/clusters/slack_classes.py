"""Clusters divided by how long their ops may wait: what is urgent apart from what is not.

In training steps the ops of one weight are of different kinds: those on the way to the loss and
back are waited for, while the weight's own gradient is needed at the very end alone. Where devices
are busy with what nobody waits for, others may take it (our derivation).
"""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.types import Floats, Ints

CLASS_BOUNDS = (0.02, 0.3)
"""Between classes: slack as a share of the longest path."""


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
