"""Tensors and weights of a problem whose units are other ones: merged, numbered anew, left out."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.rows import starts
from mcm_compiler.contracts.partition import Bools, Ints, Longs, PartitionProblem
from mcm_passes.mapping.problem.resident_sizes import aliases_among


class Regrouped(NamedTuple):
    """Some of the tensors or weights of a problem, with the new units that read them.

    Attributes:
        kept: which they are.
        ptr: CSR of the new units that read each, ascending, each once.
        units: those units.
        touched: whether one of the units in each touches the memory.
    """

    kept: Longs
    ptr: Longs
    units: Ints
    touched: Bools


def regrouped(
    ptr: Longs, units: Ints | Longs, touched: Bools, counts: Bools, always: Bools, num_units: int
) -> Regrouped:
    """The rows of which some entry counts, or that are kept always.

    Args:
        ptr: `[R + 1]`, CSR of the readers of each tensor, or the users of each weight.
        units: the new unit of each reader.
        touched: as in `PartitionProblem`.
        counts: of each reader, whether it counts.
        always: `[R]`, rows that are kept even if none does.
        num_units: of the new units.
    """
    size = ptr.size - 1
    owner = np.repeat(np.arange(size), np.diff(ptr))[counts]
    kept = np.flatnonzero(always | (np.bincount(owner, minlength=size) > 0))
    width = max(num_units, 1)
    pairs, place = np.unique(owner * width + units[counts], return_inverse=True)
    touches = np.zeros(pairs.size, np.bool_)
    np.logical_or.at(touches, place, touched[counts])
    lengths = np.bincount(pairs // width, minlength=size)[kept]
    return Regrouped(kept, starts(lengths), (pairs % width).astype(np.int32), touches)


def with_regrouped(
    problem: PartitionProblem, tensors: Regrouped, producer: Ints, weights: Regrouped
) -> PartitionProblem:
    """A problem with other tensors and weights, whose units are still to be replaced.

    Args:
        problem: the problem that they are of.
        tensors: its tensors.
        producer: the new unit that makes each, or -1.
        weights: its weights.
    """
    of_tensors, of_weights = tensors.kept.tolist(), weights.kept.tolist()
    return dataclasses.replace(
        problem,
        tensor_names=tuple(map(problem.tensor_names.__getitem__, of_tensors)),
        tensor_bytes=problem.tensor_bytes[tensors.kept],
        tensor_producer=producer.astype(np.int32),
        tensor_ptr=tensors.ptr,
        tensor_consumers=tensors.units,
        tensor_touched=tensors.touched,
        tensor_to_host=problem.tensor_to_host[tensors.kept],
        tensor_alias=aliases_among(problem, tensors.kept),
        relay_s=problem.relay_s[tensors.kept],
        weight_names=tuple(map(problem.weight_names.__getitem__, of_weights)),
        weight_bytes=problem.weight_bytes[weights.kept],
        weight_ptr=weights.ptr,
        weight_users=weights.units,
        weight_touched=weights.touched,
    )
