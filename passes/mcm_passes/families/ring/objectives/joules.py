"""The energy of one inference of a placement on a ring, and a bound on it.

Energy is what the period is made of, priced and summed up: units, copies and relays on chips, bytes
on links and host channels, and streamed weights. So all that counts loads counts joules, on a
problem whose seconds are joules and whose rates are bytes per joule.
"""

from __future__ import annotations

import dataclasses
import weakref

import numpy as np

from mcm_compiler.contracts.mapping import Evaluation
from mcm_compiler.contracts.partition import Bools, Ints, LowerBound, PartitionProblem
from mcm_compiler.text.units import energy_text
from mcm_passes.mapping.machine.evaluation import evaluate
from mcm_passes.mapping.problem.resident_sizes import sram_blocks, weight_sizes

LEAST_ENERGY = "least_energy"
ROUNDING = 1e-12
"""Relative space for sums that are taken in another order."""

_priced: weakref.WeakKeyDictionary[PartitionProblem, PartitionProblem] = weakref.WeakKeyDictionary()


def joule_problem(problem: PartitionProblem) -> PartitionProblem:
    """The same problem in joules: what takes a second there takes a joule here.

    Speeds and channels that chips share count for nothing.

    Raises:
        ValueError: where the problem has no `energy`.
    """
    known = _priced.get(problem)
    if known is not None:
        return known
    energy = problem.energy
    if energy is None:
        raise ValueError("the problem says nothing of energy")
    limits = dataclasses.replace(
        problem.limits,
        chip_speed=(),
        link_bytes_per_s=_bytes_per_joule(energy.link_byte_j),
        host_bytes_per_s=_bytes_per_joule(energy.host_byte_j),
        stream_bytes_per_s=_bytes_per_joule(energy.memory_byte_j) if problem.streams else 0.0,
        host_total_bytes_per_s=0.0,
        stream_total_bytes_per_s=0.0,
    )
    found = dataclasses.replace(
        problem,
        compute_s=energy.unit_j,
        relay_s=energy.relay_j,
        limits=limits,
        energy=None,
        # The energy of a copy is not counted; the report does not count it either.
        copies=None,
    )
    _priced[problem] = found
    return found


def _bytes_per_joule(byte_j: float) -> float:
    return 1.0 / byte_j if byte_j > 0.0 else float("inf")


class RingEnergy:
    """An `Evaluate` of one problem: joules of one inference.

    Args:
        problem: on a ring, with its `energy`.
    """

    def __init__(self, problem: PartitionProblem) -> None:
        self._joules = joule_problem(problem)

    def __call__(self, chip_of: Ints) -> float:
        """Of one placement `[N]`; infinite where it breaks a rule."""
        evaluation = evaluate(self._joules, chip_of)
        return _total_j(self._joules, evaluation) if evaluation.valid else float("inf")


def _total_j(problem: PartitionProblem, evaluation: Evaluation) -> float:
    """Joules of a placement of a problem in joules; links behind its chips count as one."""
    channel_j = evaluation.channel_busy_s
    behind = channel_j[problem.num_chips : problem.limits.last_chip]
    return float(evaluation.chip_busy_s.sum() + channel_j.sum() - behind.sum())


def energy_of(problem: PartitionProblem, chip_of: Ints) -> float:
    """The energy of one inference, whatever memory is estimated; infinite without `energy`."""
    if problem.energy is None:
        return float("inf")
    priced = joule_problem(problem)
    return _total_j(priced, evaluate(priced, chip_of))


def host_tensors(problem: PartitionProblem) -> tuple[Bools, Bools]:
    """`[T]` each: the tensors that every placement gets from the host, and gives to it."""
    made = problem.tensor_producer >= 0
    leaves = made & problem.tensor_to_host
    # What clonable units give to the host travels in no placement.
    leaves[made] &= ~problem.clonable[problem.tensor_producer[made]]
    return ~made & (np.diff(problem.placed_readers.ptr) > 0), leaves


def least_energy(problem: PartitionProblem) -> LowerBound:
    """Least energy of every placement, in joules.

    Every unit runs at least once, a copied one where something reads it; each graph input that is
    read comes from the host once at least, and each graph output goes there once. Weights that all
    chips together have no space for are streamed.
    """
    priced = joule_problem(problem.at_need())
    runs = np.diff(priced.clone_closure.ptr) > 0
    enters, leaves = host_tensors(priced)
    host_bytes = int(priced.tensor_bytes[enters | leaves].sum())
    joules = float(priced.compute_s[runs].sum()) + host_bytes / priced.limits.host_bytes_per_s
    text = f"every unit and all traffic of the host once ({energy_text(joules)})"
    if priced.streams:
        used = np.diff(priced.placed_weight_users.ptr) > 0
        room = int(sram_blocks(priced).sum()) * priced.limits.buffer_alignment_bytes
        over = int(weight_sizes(priced)[used].sum()) - room
        if over > 0:
            joules += over / priced.limits.stream_bytes_per_s
            text += f", and {over:,} bytes of weights that fit no chip"
    joules *= 1.0 - ROUNDING
    return LowerBound(joules, text, LEAST_ENERGY)
