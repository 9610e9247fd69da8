"""The prior: a head start towards the chip that balance would give a node (ours).

It is a heuristic inside the policy, so every experiment reports with and without it, and the
prior alone as a baseline.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mcm_models.policy.features import GraphFeatures


def balanced_prior(features: GraphFeatures, width: float) -> npt.NDArray[np.float32]:
    """`[n, C]`, added to the policy's scores: `-((c + 1/2 - C w) / width)^2 / 2`.

    Args:
        features: `work_before` is w.
        width: deviation in chips, above 0.
    """
    chips = np.arange(features.num_chips, dtype=np.float32) + 0.5
    wanted = features.num_chips * features.work_before[:, None]
    return (-0.5 * ((chips - wanted) / width) ** 2).astype(np.float32)
