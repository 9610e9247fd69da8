"""Types of the arrays that contracts are made of."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Naturals = npt.NDArray[np.uint32]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
