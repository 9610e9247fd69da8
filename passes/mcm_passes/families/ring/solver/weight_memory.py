"""Memory of weights over the nodes of a rule graph, as far as it is linear."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mcm_compiler.contracts.partition import Ints, Longs, PartitionProblem
from mcm_passes.mapping.problem.resident_sizes import weight_sizes
from mcm_passes.mapping.problem.rule_graph import RuleGraph


@dataclass(frozen=True, eq=False)
class WeightMemory:
    """Memory of weights: a weight used on two chips is stored on both (MCM, Eq. 5).

    Attributes:
        weight_bytes: `[W]`.
        weight_ptr: `[W + 1]`, CSR of the nodes that use each weight.
        weight_users: likewise, nodes of the rule graph.
        limit_bytes: `[C]`.
    """

    weight_bytes: Longs
    weight_ptr: Longs
    weight_users: Ints
    limit_bytes: Longs


def weight_memory(problem: PartitionProblem, graph: RuleGraph) -> WeightMemory:
    """The weights of a problem in its rule graph.

    Buffers of tensors and the weights of clonable units are left out: what is found to exceed the
    memory does so for certain, what fits here may still be too much.
    """
    index = np.full(problem.num_units, -1, np.int32)
    index[graph.units] = np.arange(graph.num_nodes)
    weight = np.repeat(np.arange(len(problem.weight_names)), np.diff(problem.weight_ptr))
    users = index[problem.weight_users]
    keep = users >= 0
    ptr = np.zeros(len(problem.weight_names) + 1, np.int64)
    np.cumsum(np.bincount(weight[keep], minlength=len(problem.weight_names)), out=ptr[1:])
    limits = np.array(problem.limits.sram_bytes, np.int64)
    return WeightMemory(weight_sizes(problem), ptr, users[keep], limits)
