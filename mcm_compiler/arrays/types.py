"""Types of the arrays that contracts are made of."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Naturals = npt.NDArray[np.uint32]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


class ReadOnlyArrays:
    """Base of dataclasses whose arrays nobody may change, in another process neither.

    What is derived from the fields is derived there again: kernels are compiled for arrays that are
    read-only, or that are not, and pickled arrays forget it.
    """

    def __post_init__(self) -> None:
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    def __getstate__(self) -> dict[str, Any]:
        record: Any = self
        return {field.name: getattr(self, field.name) for field in fields(record)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        ReadOnlyArrays.__post_init__(self)
