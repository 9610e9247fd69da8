"""The demands of tensors in flat arrays, as compiled code takes them."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from mcm_compiler.contracts.partition import Floats, Longs
from mcm_passes.mapping.loads.demand_table import DemandTable, Resource, Subject, Trigger

CROSSED, EXITED, ENTERED, MADE, RECEIVED, SENT, PASSED, LIVE = range(8)
"""Columns of `TensorColumns.amount`, named after their triggers."""


_COLUMNS = (
    (Trigger.CROSSED, Resource.LINK),
    (Trigger.EXITED, Resource.HOST_OUT),
    (Trigger.ENTERED, Resource.HOST_IN),
    (Trigger.MADE, Resource.HELD),
    (Trigger.RECEIVED, Resource.HELD),
    (Trigger.SENT, Resource.HELD),
    (Trigger.PASSED, Resource.HELD),
    (Trigger.STAYS, Resource.LIVE),
)


_KNOWN = {
    (Subject.UNIT, Trigger.MADE, Resource.BUSY),
    (Subject.TENSOR, Trigger.PASSED, Resource.BUSY),
    (Subject.WEIGHT, Trigger.READ, Resource.WEIGHT),
    *((Subject.TENSOR, trigger, resource) for trigger, resource in _COLUMNS),
    (Subject.TENSOR, Trigger.ENTERED, Resource.HOST_ROOT_IN),
    (Subject.TENSOR, Trigger.EXITED, Resource.HOST_ROOT_OUT),
}


class TensorLoads(Protocol):
    """What compiled code that counts tensors asks of a record of them; see `TensorColumns`."""

    @property
    def kind(self) -> Longs: ...
    @property
    def amount(self) -> Longs: ...
    @property
    def passed_s(self) -> Floats: ...


class TensorColumns(NamedTuple):
    """The demands of tensors.

    Attributes:
        kind: `[T]`, bits of `ring_routes`.
        amount: `[T, 8]`, bytes, or blocks of the alignment where they are memory.
        passed_s: `[T]`, seconds of a chip that passes the tensor on.
    """

    kind: Longs
    amount: Longs
    passed_s: Floats


def tensor_columns(table: DemandTable, block_bytes: int = 1) -> TensorColumns:
    """The demands of all tensors.

    Args:
        table: the table.
        block_bytes: what memory is counted in; all of it is a multiple.

    Raises:
        NotImplementedError: if the table has a demand that is not counted here.
    """
    table.check_known(_KNOWN)
    columns = [
        table.amount(Subject.TENSOR, trigger, resource)
        // (block_bytes if resource in {Resource.HELD, Resource.LIVE} else 1)
        for trigger, resource in _COLUMNS
    ]
    return TensorColumns(
        kind=table.kinds,
        amount=np.ascontiguousarray(np.stack(columns, axis=1), np.int64),
        # A copy: arrays of a problem are read-only and others are not, and kernels that take one
        # of each are compiled twice.
        passed_s=np.array(table.amount(Subject.TENSOR, Trigger.PASSED, Resource.BUSY), np.float64),
    )
