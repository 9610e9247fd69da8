"""Costs of units and tensors on each kind of chip of a package, and of views that are copied.

Views are copied where they leave a chip that did not write their memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mcm_compiler.arrays.types import Bools, Floats, Ints, Longs, ReadOnlyArrays


@dataclass(frozen=True, eq=False)
class KindCosts(ReadOnlyArrays):
    """Costs of N units and T tensors on K kinds of chips. All arrays are read-only.

    Tables are stored row by row, one row a kind. `of` makes such a record from tables.

    Attributes:
        names: `[K]`, name of each kind.
        unit_s: `[K * N]`, seconds of each unit on a chip of speed 1. Where `runs` is False, the
            least seconds over the other kinds.
        relay_s: `[K * T]`, seconds of one relay of each tensor, likewise.
        runs: `[K * N]`, whether chips of the kind can run the unit.
        price: `[K]`, at least 0, a price per second of each kind, for the bound of shared work.
    """

    names: tuple[str, ...]
    unit_s: Floats
    relay_s: Floats
    runs: Bools
    price: Floats

    @classmethod
    def of(
        cls,
        names: tuple[str, ...],
        unit_s: Floats,
        relay_s: Floats,
        runs: Bools,
        price: Floats | None = None,
    ) -> KindCosts:
        """The record of tables `[K, N]`, `[K, T]` and `[K, N]`, with equal prices where None.

        Seconds of units on kinds that cannot run them are replaced.
        """
        least_s = np.where(runs, unit_s, np.inf).min(axis=0)
        least_s = np.where(runs.any(axis=0), least_s, 0.0)
        seconds = np.where(runs, unit_s, least_s)
        if price is None:
            price = np.ones(len(names))
        return cls(names, seconds.ravel(), np.ravel(relay_s).copy(), np.ravel(runs).copy(), price)

    @property
    def units(self) -> Floats:
        """`[K, N]`, `unit_s` as a table."""
        return self.unit_s.reshape(len(self.names), -1)

    @property
    def relays(self) -> Floats:
        """`[K, T]`, `relay_s` as a table."""
        return self.relay_s.reshape(len(self.names), -1)

    @property
    def can_run(self) -> Bools:
        """`[K, N]`, `runs` as a table."""
        return self.runs.reshape(len(self.names), -1)

    def joined(self, unit_of: Ints | Longs, count: int, tensors: Longs) -> KindCosts:
        """The costs where units were joined, and some tensors left out.

        Args:
            unit_of: `[N]`, the joined unit of each unit.
            count: joined units.
            tensors: those that are left.
        """
        seconds = [np.bincount(unit_of, row, minlength=count) for row in self.units]
        lacking = [np.bincount(unit_of, ~row, minlength=count) == 0 for row in self.can_run]
        return replace(
            self,
            unit_s=np.concatenate(seconds),
            relay_s=self.relays[:, tensors].ravel(),
            runs=np.concatenate(lacking),
        )


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
