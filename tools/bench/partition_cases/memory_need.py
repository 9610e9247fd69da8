"""Why nothing can fit, as far as single units and weights show, under the compiler's estimate."""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts.partition import Floats, PartitionProblem
from mcm_passes.mapping.problem.resident_sizes import tensor_sizes, weight_sizes


def too_little_memory(problem: PartitionProblem) -> str:
    """A proof that no partition fits; empty where there is none of these kinds.

    - A chip that runs a unit holds its weights, what it reads and what it writes.
    - Two weights of more than half a chip's memory do not share a chip.
    """
    most = max(problem.limits.sram_bytes)
    need = least_memory(problem)
    unit = int(need.argmax())
    if need[unit] > most:
        return (
            f"'{problem.names[unit]}' with what it reads and writes needs "
            f"{need[unit] / 2**20:.1f} MiB on any chip"
        )
    large = int((2 * weight_sizes(problem) > most).sum())
    if large > problem.num_chips:
        return (
            f"{large} weights, or pieces of weights, take more than half a chip each, and there "
            f"are {problem.num_chips} chips"
        )
    return ""


def least_memory(problem: PartitionProblem) -> Floats:
    """`[N]`, bytes that the fast model charges at least to a chip that runs each unit.

    Slots of what comes from the host or goes there, else the peak of live bytes with room for
    gaps, which is less than the slots of what comes from another chip; 0 for clonable units.
    """
    slots, packing = problem.limits.channel_slots, problem.limits.activation_packing
    sizes = tensor_sizes(problem).astype(np.float64)
    made = problem.tensor_producer >= 0
    by_clone = np.zeros(made.size, np.bool_)
    by_clone[made] = problem.clonable[problem.tensor_producer[made]]
    per_byte = np.where(by_clone, 1.0, np.where(made, min(packing, slots), float(slots)))
    need = np.zeros(problem.num_units)
    reads = np.repeat(sizes * per_byte, np.diff(problem.tensor_ptr))
    np.add.at(need, problem.tensor_consumers, reads)
    writes = sizes * np.where(problem.tensor_to_host, slots, min(packing, slots))
    np.add.at(need, problem.tensor_producer[made], writes[made])
    weights = np.repeat(weight_sizes(problem), np.diff(problem.weight_ptr))
    np.add.at(need, problem.weight_users, weights.astype(np.float64))
    return np.where(problem.clonable, 0.0, need)
