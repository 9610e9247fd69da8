"""Joules of units and tensors, from what a target says of energy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from mcm_compiler.contracts.cost import CostModel, NodeCost, relay_costs
from mcm_compiler.contracts.fusion import FusionPlan
from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.contracts.target import Target
from mcm_compiler.diagnostics import CompileError, quote
from mcm_compiler.machines.package_limits import EnergyCosts, UnitEnergies, energy_of
from mcm_passes.mapping.problem.measured_names import kernels_of


def with_energy(
    problem: PartitionProblem, model: ir.Model, target: Target, plan: FusionPlan
) -> PartitionProblem:
    """A problem with its `energy`: costs come from the target alone, whatever the graph carries.

    Args:
        problem: of the model; members and tensors by the names in it.
        model: the graph that the problem follows from.
        target: gives costs and joules.
        plan: the fusion plan of the problem.

    Raises:
        CompileError: MCM-P064 where the target says nothing of energy.
    """
    costs = energy_of(target)
    if costs is None:
        raise CompileError.of(
            "MCM-P064",
            f"the least energy of an inference is asked for, and target {quote(target.name)} "
            "does not say what its work costs",
            at="option objective",
        )
    nodes = {node.name or "": node for node in model.graph}
    values = {value.name: value for value in model.graph.inputs}
    values |= {value.name: value for node in nodes.values() for value in node.outputs}
    tensors = [values[name] for name in problem.tensor_names]
    cost_model = target.cost_model()
    energy = UnitEnergies(
        unit_j=np.array(
            [
                _unit_joules([nodes[name] for name in names], plan, cost_model, costs)
                for names in problem.members
            ],
            np.float64,
        ),
        relay_j=np.array(
            [_kernel_joules(cost, costs) for cost in relay_costs(tensors, cost_model.node_cost)],
            np.float64,
        ),
        link_byte_j=costs.link_byte_j,
        host_byte_j=costs.host_byte_j,
        memory_byte_j=costs.memory_byte_j,
    )
    return replace(problem, energy=energy)


def _unit_joules(
    ops: Sequence[ir.Node], plan: FusionPlan, cost_model: CostModel, costs: EnergyCosts
) -> float:
    """Of one run of a unit: its kernels, each a group of the plan or a single op."""
    found = (_kernel_cost(kernel, cost_model) for kernel in kernels_of(ops, plan))
    return math.fsum(_kernel_joules(cost, costs) for cost in found)


def _kernel_cost(nodes: Sequence[ir.Node], cost_model: CostModel) -> NodeCost:
    return cost_model.group_cost(nodes) if len(nodes) > 1 else cost_model.node_cost(nodes[0])


def _kernel_joules(cost: NodeCost, costs: EnergyCosts) -> float:
    """Of arithmetic and SRAM; what the host runs crosses its link both ways instead."""
    joules = (cost.read_bytes + cost.write_bytes) * costs.sram_byte_j
    if cost.trip is not None:
        return joules + (cost.trip.up_bytes + cost.trip.down_bytes) * costs.host_byte_j
    return joules + cost.flops / 2 * costs.mac_j
