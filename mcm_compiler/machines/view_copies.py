"""Views that are copied where they leave a chip that did not write their memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mcm_compiler.arrays.types import Floats, Ints, Longs, ReadOnlyArrays

NOBODY = -1
"""In `ViewCopies.writer`: no unit writes the memory, which is a graph input's or a weight's."""


@dataclass(frozen=True, eq=False)
class ViewCopies(ReadOnlyArrays):
    """V tensors that are views of memory which another unit writes. All arrays are read-only.

    Such a tensor has no memory of its own on the chip that makes it. Where it leaves that chip, to
    another one or to the host, and its `writer` is not there, the chip copies it first.

    Attributes:
        tensor: `[V]`, ascending.
        writer: `[V]`, the unit that writes the memory, or `NOBODY`. It has a place of its own, and
            stands before the unit that makes the tensor.
        seconds: `[K * V]`, by which a copy prolongs the kernel that makes the tensor, on a chip of
            speed 1 of each of K kinds; one where the chips of a problem are alike.
    """

    tensor: Ints
    writer: Ints
    seconds: Floats

    @property
    def by_kind(self) -> Floats:
        """`[K, V]`, `seconds` as a table."""
        return self.seconds.reshape(-1, self.tensor.size)

    @property
    def least(self) -> ViewCopies:
        """The same where each copy takes as long as on the kind that is fastest at it."""
        return replace(self, seconds=self.by_kind.min(axis=0))

    def joined(self, unit_of: Ints | Longs, tensors: Longs) -> ViewCopies | None:
        """The copies where units were joined and some tensors left out; None if there are none.

        Args:
            unit_of: `[N]`, the joined unit of each unit.
            tensors: those that are left, ascending.
        """
        kept = np.flatnonzero(np.isin(self.tensor, tensors))
        if not kept.size:
            return None
        writer = self.writer[kept]
        return replace(
            self,
            tensor=np.searchsorted(tensors, self.tensor[kept]).astype(np.int32),
            writer=np.where(writer < 0, writer, unit_of[writer]).astype(np.int32),
            seconds=self.by_kind[:, kept].ravel(),
        )
