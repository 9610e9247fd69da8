"""What ops take on each kind of device: a roofline per kind, over work that is counted once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from mcm_compiler.arrays.types import Floats
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


def op_times(nodes: Sequence[ir.Node], kinds: Sequence[DeviceKind]) -> Floats:
    """`[nodes, kinds]`, seconds with launch; 0 where nothing runs; infinite where a kind cannot.

    Args:
        nodes: with static shapes.
        kinds: of devices.
    """
    costs = [kind_roofline(kind) for kind in kinds]
    times = np.zeros((len(nodes), len(kinds)))
    for n, node in enumerate(nodes):
        if aliases(node):
            continue
        if (node.domain, node.op_type) in CONTROL_FLOW:
            times[n] = [cost.node_cost(node).seconds for cost in costs]
            continue
        work = kernel_work((node,), costs[0].chip.storage)
        if work.runs:
            times[n] = [
                cost.chip.launch_s + max(cost.timing(cost.chip, work).values()) for cost in costs
            ]
    for k, kind in enumerate(kinds):
        if kind.support is not None:
            lacking = [n for n, node in enumerate(nodes) if kind.support.unsupported(node)]
            times[lacking, k] = np.inf
    return times
