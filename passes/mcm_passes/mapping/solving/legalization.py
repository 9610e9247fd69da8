"""Making a partition executable: clones, relays, and the order of the ops.

What the problem charged for while it was solved is built here, and nothing else. These are a copy
of each clonable unit on every chip that reads it, and an Identity on every chip that has to pass a
tensor on, as the family says. Under the relay rule of rings these are all chips between the
producer of a tensor and its last reader, so that every hop is one chip long.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from mcm_compiler.components.op_support import runs_on_host
from mcm_compiler.contracts.chips import (
    GROUP_PROPERTY,
    ORIGIN_PROPERTY,
    RUNS_ON_HOST,
    RUNS_ON_PROPERTY,
    kernels_of,
    ordered_by,
)
from mcm_compiler.contracts.cost import CostModel, KnowsHostOps
from mcm_compiler.contracts.fusion import FusionPlan
from mcm_compiler.contracts.mapping import PassedOn
from mcm_compiler.contracts.partition import CHIP, RELAY, Legalization, Partition, PartitionProblem
from mcm_compiler.graph.constants import constant_values, consumed_values
from mcm_compiler.ir.rewriting.naming import UnusedNames
from mcm_compiler.ir.rewriting.node_copying import copy_node, rewire
from mcm_compiler.placements.machine_rules import hops_of
from mcm_compiler.placements.ring_rules import dependency_edges
from mcm_passes.mapping.models import evaluate, mapping_of


def mark_host_ops(graph: ir.Graph, cost_model: CostModel) -> None:
    """Sets `metadata_props["mcm.runs_on"]` on the ops of each kernel that the host runs.

    Args:
        graph: with the fusion groups of its ops in their metadata.
        cost_model: of the target; where it knows of no host, nothing is marked.
    """
    for node in graph:
        node.metadata_props.pop(RUNS_ON_PROPERTY, None)  # of an earlier compile
    if not isinstance(cost_model, KnowsHostOps):
        return
    for nodes in kernels_of(graph):
        if runs_on_host(cost_model, nodes):
            for node in nodes:
                node.metadata_props[RUNS_ON_PROPERTY] = RUNS_ON_HOST


def legalize(
    model: ir.Model, problem: PartitionProblem, partition: Partition, plan: FusionPlan
) -> Legalization:
    """Changes the graph of `model` so that it can be split by chip.

    Afterwards every op that a chip runs has `CHIP`, and the graph is ordered: constant nodes,
    then chip by chip the relays and the units in the order of `problem`. Ops of fusion groups
    carry `mcm.group`. Of a cloned unit the copy on its first chip keeps its names, the others are
    called `<name>/on_chip_<k>`; relays are called `<value>/relay_<k>`.

    Args:
        model: the model that `problem` was built from, unchanged since.
        problem: the problem.
        partition: its solution.
        plan: the fusion plan that `problem` was built with.
    """
    work = _Legalizer(model, problem, partition, plan)
    work.run()
    return Legalization(tuple(work.clones), tuple(work.relays))


class _Legalizer:
    def __init__(
        self, model: ir.Model, problem: PartitionProblem, partition: Partition, plan: FusionPlan
    ) -> None:
        self._graph = model.graph
        self._problem = problem
        self._plan = plan
        evaluation = evaluate(problem, partition.chip_of)
        self._chip_of = evaluation.chip_of.tolist()
        # Engines of chips without units may pass tensors on.
        relayed = problem.machine.relays
        self._num_chips = problem.num_chips if relayed else partition.num_chips_used
        self._copies: dict[int, list[int]] = {
            u: [c for c, there in enumerate(row) if there]
            for u, row in zip(
                problem.clonable.nonzero()[0].tolist(), evaluation.copies.tolist(), strict=True
            )
        }
        self._names = UnusedNames(model.graph)
        self._nodes = {node.name or "": node for node in model.graph}
        # What a chip reads instead of a value of the original graph.
        self._local: list[dict[ir.Value, ir.Value]] = [{} for _ in range(self._num_chips)]
        self._relayed: list[list[ir.Node]] = [[] for _ in range(self._num_chips)]
        self.clones: list[tuple[str, str, int]] = []
        self.relays: list[tuple[str, str, int]] = []

    def run(self) -> None:
        for name, group in self._plan.group_of.items():
            if name in self._nodes:
                self._nodes[name].metadata_props[GROUP_PROPERTY] = group.name
        bodies: list[list[ir.Node]] = [[] for _ in range(self._num_chips)]
        # Clones first: whatever is rewired below may read them.
        copied = {u: self._clone(u, chips) for u, chips in self._copies.items()}
        self._plan_relays()
        for u, members in enumerate(self._problem.members):
            if u in copied:
                for chip, nodes in copied[u].items():
                    bodies[chip] += nodes
                continue
            chip = self._chip_of[u]
            for name in members:
                node = self._nodes[name]
                self._rewire(node, chip)
                bodies[chip].append(node)
        for u, chips in self._copies.items():
            for chip in chips:
                for node in copied[u][chip]:
                    self._rewire(node, chip)
        self._reorder(bodies)

    def _clone(self, unit: int, chips: list[int]) -> dict[int, list[ir.Node]]:
        """The ops of a clonable unit on each of its chips; the first has the originals."""
        originals = [self._nodes[name] for name in self._problem.members[unit]]
        placed = {chips[0]: originals}
        for chip in chips[1:]:
            local = self._local[chip]
            suffix = f"/on_chip_{chip}"
            placed[chip] = []
            for node in originals:
                clone = copy_node(node, local, self._names.take(f"{node.name}{suffix}"))
                clone.metadata_props.setdefault(ORIGIN_PROPERTY, node.name or "")
                if GROUP_PROPERTY in clone.metadata_props:
                    clone.metadata_props[GROUP_PROPERTY] += suffix
                for old, new in zip(node.outputs, clone.outputs, strict=True):
                    if old.name:
                        new.name = self._names.take(f"{old.name}{suffix}")
                    local[old] = new
                placed[chip].append(clone)
                self.clones.append((node.name or "", clone.name or "", chip))
        return placed

    def _plan_relays(self) -> None:
        problem = self._problem
        passed_on = mapping_of(problem).passed_on(problem, self._chip_of)
        if not passed_on:
            return
        values = {value.name or "": value for value in self._graph.inputs}
        for node in self._graph:
            values.update((value.name or "", value) for value in node.outputs)
        for way in passed_on:
            self._relay(values[problem.tensor_names[way.tensor]], way)

    def _relay(self, value: ir.Value, way: PassedOn) -> None:
        """Passes `value` on; each chip after the maker's reads what another one sends."""
        made_on = {way.maker: value}
        name = value.name or ""
        if way.collected >= 0:
            # The graph's output keeps its name, and is now made by the last relay.
            value.name = self._names.take(f"{name}/on_chip_{way.maker}")
        for chip, source in zip(way.received, way.came_from, strict=True):
            arriving = made_on[source]
            if arriving is not value:
                self._local[chip][value] = arriving
            if chip not in way.passed:
                continue
            is_output = chip == way.collected
            relay_name = self._names.take(f"{name}/relay_{chip}")
            relay = ir.Node("", "Identity", [arriving], name=relay_name)
            made = relay.outputs[0]
            made.name = name if is_output else relay_name
            made.type = value.type
            made.shape = value.shape.copy() if value.shape is not None else None
            CHIP.set(relay, chip)
            RELAY.set(relay, True)
            self._relayed[chip].append(relay)
            self.relays.append((name, relay_name, chip))
            if is_output:
                for index, output in enumerate(self._graph.outputs):
                    if output is value:
                        self._graph.outputs[index] = made
            made_on[chip] = made

    def _rewire(self, node: ir.Node, chip: int) -> None:
        CHIP.set(node, chip)
        local = self._local[chip]
        changed = {v: local[v] for v in consumed_values(node) if v in local} if local else {}
        if changed:
            rewire(node, changed)

    def _in_dataflow_order(self) -> tuple[int, ...]:
        source, target = dependency_edges(self._problem)
        chips = np.array(self._chip_of)
        pairs = np.unique(np.stack([chips[source], chips[target]], axis=1), axis=0)
        if self._problem.machine.relays:
            pairs = hops_of(self._problem.machine, pairs)
        return ordered_by(map(tuple, pairs.tolist()), range(self._num_chips))

    def _reorder(self, bodies: list[list[ir.Node]]) -> None:
        constants = constant_values(self._graph)
        # A constant op that is placed, because it makes a graph output, may feed others.
        order = [node for node in self._graph if all(v in constants for v in node.outputs)]
        before = set(order)
        for chip in self._in_dataflow_order():
            order += self._relayed[chip]
            order += [node for node in bodies[chip] if node not in before]
        placed = set(order)
        # What is left is dead code: nothing reads it.
        order += [node for node in self._graph if node not in placed]
        self._graph.extend(order)
