"""What ops take on each kind of device: a roofline, or a cost model that was chosen for the kind.

The work of an op is counted once for all rooflines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from mcm_compiler.arrays.types import Bools, Floats
from mcm_compiler.contracts.cost import CostModel
from mcm_hardware.chip.device_roofline import device_roofline
from mcm_hardware.chip.kernel_work import is_view, kernel_work
from mcm_hardware.chip.roofline import Roofline
from mcm_hardware.families.box.device_kinds import DeviceKind
from mcm_hardware.op_costs.control_flow import CONTROL_FLOW


def kind_roofline(kind: DeviceKind) -> Roofline:
    """The cost model of devices of a kind."""
    return device_roofline(
        kind.flops_per_s, kind.memory_bytes_per_s, kind.memory_bytes, kind.launch_s
    )


def aliases(node: ir.Node) -> bool:
    """Whether the first output of `node` is its first input: a view of it, or the very same."""
    same = node.op_type == "Identity" and node.domain in ("", "ai.onnx")
    return same or is_view(node)


def op_times(
    nodes: Sequence[ir.Node], kinds: Sequence[DeviceKind], chosen: Mapping[str, CostModel]
) -> Floats:
    """`[nodes, kinds]`, seconds with launch; 0 where nothing runs; infinite where a kind cannot.

    Args:
        nodes: with static shapes.
        kinds: of devices.
        chosen: cost models that hold instead of rooflines, by name of kind. Where nothing runs, a
            time counts only if it was measured.

    Raises:
        CompileError: as the chosen models: MCM-C001 and MCM-C002.
    """
    costs = [kind_roofline(kind) for kind in kinds]
    times = np.zeros((len(nodes), len(kinds)))
    idle = np.zeros(len(nodes), np.bool_)
    for n, node in enumerate(nodes):
        if aliases(node):
            idle[n] = True
            continue
        if (node.domain, node.op_type) in CONTROL_FLOW:
            times[n] = [cost.node_cost(node).seconds for cost in costs]
            continue
        work = kernel_work((node,), costs[0].chip.storage)
        idle[n] = not work.runs
        if work.runs:
            times[n] = [
                cost.chip.launch_s + max(cost.timing(cost.chip, work).values()) for cost in costs
            ]
    for k, kind in enumerate(kinds):
        if kind.support is not None:
            lacking = [n for n, node in enumerate(nodes) if kind.support.unsupported(node)]
            times[lacking, k] = np.inf
        if (model := chosen.get(kind.name)) is not None:
            _take_chosen(times[:, k], nodes, idle, model)
    return times


def _take_chosen(column: Floats, nodes: Sequence[ir.Node], idle: Bools, model: CostModel) -> None:
    """Writes what a chosen model says into the times of one kind, but for ops that it lacks."""
    for n in np.flatnonzero(np.isfinite(column)).tolist():
        cost = model.node_cost(nodes[n])
        column[n] = cost.seconds if cost.measured_ops or not idle[n] else 0.0
