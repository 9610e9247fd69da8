"""Kernels as models of their own, for devices that time whole models alone.

Where each costs a session of its own, not all of them are worth one.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx
import onnx_ir as ir

from mcm_compiler.components.cost_choice import calibrated, with_cost_model
from mcm_compiler.components.cost_files import held_files
from mcm_compiler.contracts.cost import CostModel
from mcm_compiler.contracts.target import Target

Kernels = Mapping[str, Sequence[ir.Node]]


@dataclass(frozen=True)
class KernelBudget:
    """A number of distinct kernels that are measured.

    Attributes:
        most: of each chip.
        machine: short name of the machine.
        known: file of kernels of other models that were measured on it; None for none.
    """

    most: int
    machine: str
    known: bytes | None = None

    def chosen(
        self, kernels: Kernels, measured_s: Mapping[str, float], target: Target
    ) -> Iterator[list[str]]:
        """Names of kernels that are alike, one group after another.

        The next ones are those that the time of all may be off by most: number, times time, times
        uncertainty after what was measured so far. Without known kernels the longest are next.

        Args:
            kernels: of a chip by name.
            measured_s: seconds by name; grows while kernels are chosen.
            target: computes times.
        """
        groups: dict[object, list[str]] = {}
        for name, nodes in kernels.items():
            groups.setdefault(tuple(map(_kind, nodes)), []).append(name)
        for _ in range(min(self.most, len(groups))):
            costs = self._costs(kernels, measured_s, target)
            worth: dict[object, float] = {}
            for kind, names in groups.items():
                cost = costs.group_cost(kernels[names[0]])
                worth[kind] = len(names) * (cost.deviation_s or cost.seconds)
            yield groups.pop(max(worth, key=lambda kind: worth[kind]))

    def unmeasured_s(
        self, kernels: Kernels, measured_s: Mapping[str, float], target: Target
    ) -> float:
        """Computed time of all other kernels of a chip, calibrated by those that were measured."""
        costs = self._costs(kernels, measured_s, target)
        others = (nodes for name, nodes in kernels.items() if name not in measured_s)
        return math.fsum(costs.group_cost(nodes).seconds for nodes in others)

    def _costs(
        self, kernels: Kernels, measured_s: Mapping[str, float], target: Target
    ) -> CostModel:
        if not measured_s:
            return target.cost_model()
        stream = io.StringIO(newline="")
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(("kernel", "seconds", "machine"))
        writer.writerows((name, s, self.machine) for name, s in measured_s.items())
        files, known = {"rows.csv": stream.getvalue().encode()}, ""
        if self.known is not None:
            files["known.json"], known = self.known, ",known=known.json"
        chosen = with_cost_model(target, f"table{{file=rows.csv{known}}}", held_files(files))
        return calibrated(chosen, kernels.values()).cost_model()


def _kind(node: ir.Node) -> object:
    """Equal for ops that take one time, whatever their names."""
    shapes = tuple(str(value and value.shape) for value in (*node.inputs, *node.outputs))
    attributes = tuple(sorted(map(str, node.attributes.values())))
    return node.domain, node.op_type, shapes, attributes


def kernel_model(graph: ir.Graph, nodes: Sequence[ir.Node]) -> onnx.ModelProto:
    """The ops of one kernel with their weights; other tensors that it reads are its inputs.

    Args:
        graph: of the chip.
        nodes: of the kernel, in topological order.
    """
    inside = set(nodes)
    made = [value for node in nodes for value in node.outputs if value.name]
    taken = dict.fromkeys(
        value
        for node in nodes
        for value in node.inputs
        if value is not None and value.producer() not in inside
    )
    leaving = [
        value
        for value in made
        if value.is_graph_output() or not {use.node for use in value.uses()} <= inside
    ]
    proto = onnx.helper.make_graph(
        [ir.serde.serialize_node(node) for node in nodes],
        "kernel",
        [ir.serde.serialize_value(value) for value in taken if value.const_value is None],
        [ir.serde.serialize_value(value) for value in leaving],
        [
            ir.serde.serialize_tensor(ir.Tensor(value.const_value.numpy(), name=value.name))
            for value in taken
            if value.const_value is not None
        ],
    )
    opsets = [onnx.helper.make_opsetid(d, v) for d, v in graph.opset_imports.items()]
    return onnx.helper.make_model(proto, opset_imports=opsets, ir_version=10)


def scaled_to_chip(
    alone_s: Mapping[str, float], chip_s: float, rest_s: float = 0.0
) -> dict[str, float]:
    """Times whose sum with that of other kernels is that of the chip.

    Args:
        alone_s: seconds of each kernel on its own; by themselves they mislead, as a kernel pays for
            layout changes at its ends and finds its weights in caches.
        chip_s: of an inference of the whole chip.
        rest_s: computed time of kernels that were not measured.
    """
    total_s = sum(alone_s.values()) + rest_s
    return {name: seconds * chip_s / total_s for name, seconds in alone_s.items()}
