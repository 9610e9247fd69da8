"""Costs of units and tensors on each kind of chip of a package."""

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
