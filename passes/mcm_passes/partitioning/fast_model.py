"""The fast model: what a partition costs, in microseconds instead of a simulation.

Chips, links and host channels are separate resources that overlap; the busiest sets the period
(MCM, section 5.1, counts chips only; links and host are our addition). Everything that
legalisation will add is charged here: clones on every chip that reads them, relays on the chips
between, and their memory.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import numpy as np

from mcm_compiler.partition import Bools, Floats, Ints, Longs, PartitionProblem
from mcm_compiler.ring_rules import Violation, find_partition_violations
from mcm_passes.partitioning import fast_kernels
from mcm_passes.partitioning.rooms import aligned, needed_rooms, tensor_rooms, weight_rooms


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What one partition costs per inference.

    Attributes:
        chip_of: `[N]`, the partition, with each clonable unit on the first chip with a copy.
        copies: `[K, C]`, the chips that hold a copy of each of the K clonable units.
        chip_busy_s: `[C]`, units, clones and relays, at the chip's own speed.
        link_busy_s: `[C - 1]`, link c carries once each tensor that must get from chips up to c
            to chips after c.
        host_in_busy_s: `[C]`, what arrives from the host.
        host_out_busy_s: `[C]`, what goes to the host.
        stream_busy_s: `[C]`, weights that come from off-package memory for every inference.
        memory_bytes: `[C]`, what lowering needs. An estimate counts each distinct weight once,
            receive and send buffers with all their slots, and the peak of live activations in the
            order of the units, times the room that the target's memory plans leave for gaps.
            Streamed weights count with buffers for the largest. At need it is what every memory
            plan of the target takes at least, see `NeededRooms`.
        weight_bytes: `[C]`, the part of it that weights take.
        period_s: the busiest resource.
        violations: rules that the partition breaks; empty where it is valid.
    """

    chip_of: Ints
    copies: Bools
    chip_busy_s: Floats
    link_busy_s: Floats
    host_in_busy_s: Floats
    host_out_busy_s: Floats
    stream_busy_s: Floats
    memory_bytes: Longs
    weight_bytes: Longs
    period_s: float
    violations: tuple[Violation, ...]

    @property
    def valid(self) -> bool:
        """Whether no rule is broken."""
        return not self.violations


def problem_arrays(problem: PartitionProblem) -> fast_kernels.ProblemArrays:
    """A problem as compiled code takes it; it holds on to the problem's arrays, not to it."""
    order = np.argsort(problem.tensor_producer, kind="stable")
    made = order[problem.tensor_producer[order] >= 0]
    counts = np.bincount(problem.tensor_producer[made], minlength=problem.num_units)
    limits = problem.limits
    need = problem.memory == "need"
    no_pairs = np.zeros(0, np.int64)
    rooms = needed_rooms(problem) if need else None
    return fast_kernels.ProblemArrays(
        compute_s=problem.compute_s,
        clone_row=np.where(problem.clonable, np.cumsum(problem.clonable) - 1, np.int64(-1)).astype(
            np.int32
        ),
        num_clonable=int(problem.clonable.sum()),
        tensor_bytes=problem.tensor_bytes,
        tensor_aligned=tensor_rooms(problem),
        tensor_producer=problem.tensor_producer,
        tensor_ptr=problem.tensor_ptr,
        tensor_consumers=problem.tensor_consumers,
        tensor_to_host=problem.tensor_to_host,
        relay_s=problem.relay_s,
        unit_ptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        unit_tensors=made.astype(np.int64),
        weight_aligned=weight_rooms(problem),
        weight_ptr=problem.weight_ptr,
        weight_users=problem.weight_users,
        num_chips=problem.num_chips,
        relay=problem.routing == "relay",
        ends=limits.host_io == "ends",
        slots=limits.channel_slots,
        need=need,
        send=rooms.send if rooms else no_pairs,
        live=rooms.live if rooms else no_pairs,
        held_ptr=rooms.held_ptr if rooms else no_pairs,
        held=rooms.held if rooms else no_pairs.astype(np.int32),
        stay_ptr=rooms.stay_ptr if rooms else no_pairs,
        stay=rooms.stay if rooms else no_pairs.astype(np.int32),
    )


class FastModel:
    """A problem prepared for many evaluations."""

    def __init__(self, problem: PartitionProblem) -> None:
        self._problem = weakref.proxy(problem)
        self._speed = problem.chip_speed
        self._arrays = problem_arrays(problem)

    def evaluate(self, chip_of: Ints) -> Evaluation:
        """What `chip_of` costs; its entries for clonable units are not looked at.

        Args:
            chip_of: `[N]`. Out-of-range entries make the evaluation invalid, not an error.
        """
        problem: PartitionProblem = self._problem
        limits = problem.limits
        inside = np.clip(chip_of, 0, problem.num_chips - 1).astype(np.int32)
        in_range = bool(np.array_equal(inside[~problem.clonable], chip_of[~problem.clonable]))
        result = fast_kernels.measure(self._arrays, inside)
        copies, busy, link_bytes, host_in, host_out, weights, channels, peak, largest = result
        placed = inside.copy()
        # numpy's argmax gives the first chip that holds a copy.
        placed[problem.clonable] = copies.argmax(axis=1)
        packed = np.ceil(peak * limits.activation_packing).astype(np.int64)
        memory = weights + channels + aligned(packed, limits.buffer_alignment_bytes)
        streamed = np.zeros_like(memory)
        if problem.streams:
            over = memory - np.array(limits.sram_bytes, np.int64)
            buffers = limits.stream_buffers * largest
            streamed = np.where(over > 0, np.minimum(over + buffers, weights), 0)
            memory += np.where(over > 0, buffers - streamed, 0)
        stream_busy = streamed / (limits.stream_bytes_per_s or np.inf)
        busy = busy / self._speed
        link_busy = link_bytes[:-1] / limits.link_bytes_per_s
        host_in_busy = host_in / limits.host_bytes_per_s
        host_out_busy = host_out / limits.host_bytes_per_s
        checked = placed if in_range else chip_of
        return Evaluation(
            chip_of=placed,
            copies=copies,
            chip_busy_s=busy,
            link_busy_s=link_busy,
            host_in_busy_s=host_in_busy,
            host_out_busy_s=host_out_busy,
            stream_busy_s=stream_busy,
            memory_bytes=memory,
            weight_bytes=weights,
            period_s=max(
                float(r.max(initial=0.0))
                for r in (busy, link_busy, host_in_busy, host_out_busy, stream_busy)
            ),
            violations=tuple(find_partition_violations(problem, checked, memory)),
        )


_models: weakref.WeakKeyDictionary[PartitionProblem, FastModel] = weakref.WeakKeyDictionary()


def evaluate(problem: PartitionProblem, chip_of: Ints) -> Evaluation:
    """What a partition costs; see `Evaluation`.

    Args:
        problem: arrays derived from it are kept as long as it lives.
        chip_of: `[N]`; entries of clonable units are not looked at.
    """
    model = _models.get(problem)
    if model is None:
        model = _models[problem] = FastModel(problem)
    return model.evaluate(chip_of)


def period(problem: PartitionProblem, chip_of: Ints) -> float:
    """The period in seconds; infinite where the partition breaks a rule."""
    evaluation = evaluate(problem, chip_of)
    return evaluation.period_s if evaluation.valid else float("inf")
