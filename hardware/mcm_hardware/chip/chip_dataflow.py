"""Where the tensors of one chip live: which memory holds them, who writes it, who reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import onnx_ir as ir

from mcm_compiler.arrays.dags import following_lists, topological
from mcm_compiler.contracts.chips import GROUP_PROPERTY
from mcm_compiler.contracts.target import ChipModel
from mcm_compiler.graph.constants import (
    attribute_weights,
    constants_and_placeable,
    consumed_values,
    memory_of,
)
from mcm_compiler.graph.states import copies_held
from mcm_hardware.chip.kernel_work import is_view


class HeldState(NamedTuple):
    """A state of a chip.

    Attributes:
        past: input of the chip's model.
        present: output of it.
        root: the value whose memory holds the present; it is in a buffer of the state.
        buffers: one for each sequence in flight, or one more, see `copies_held`.
    """

    past: ir.Value
    present: ir.Value
    root: ir.Value
    buffers: int


@dataclass(frozen=True)
class ChipDataflow:
    """The tensors of one chip, by *root*: the value whose memory holds them.

    A view shares the memory of its operand. Only a view that leaves the chip is copied, and is its
    own root, where no kernel of the chip writes that memory (a receive buffer, a weight). A view of
    such a copy that leaves as well is copied again.

    Attributes:
        kernels: in execution order.
        after: kernels that need what each kernel makes, views included; ascending.
        weights: constants that kernels read, in order of first use in the chip's model; those in
            bodies of control flow behind what the op itself reads.
        arriving: transfer that brings a root, for those that come over a wire.
        writer: kernel that writes a root, for those that are computed here, in the order of the
            chip's model.
        readers: kernels that read the memory of a root, ascending.
        leaving: transfers that send the memory of a root.
        kept: roots that are outputs of the chip's model but go nowhere; alive to the end.
        copies: `(kernel, value)` for each view that is copied.
        states: what stays on the chip from one inference of a sequence to the next.
    """

    kernels: tuple[KernelNodes, ...]
    after: tuple[tuple[int, ...], ...]
    weights: tuple[ir.Value, ...]
    arriving: Mapping[ir.Value, int]
    writer: Mapping[ir.Value, int]
    readers: Mapping[ir.Value, tuple[int, ...]]
    leaving: Mapping[ir.Value, tuple[int, ...]]
    kept: frozenset[ir.Value]
    copies: tuple[tuple[int, ir.Value], ...]
    states: tuple[HeldState, ...] = ()

    def reordered(self, order: Sequence[int]) -> ChipDataflow:
        """The same tensors with the kernels in another order.

        Args:
            order: kernels as they are numbered now, each after those that it needs.
        """
        place = {kernel: position for position, kernel in enumerate(order)}
        return replace(
            self,
            kernels=tuple(self.kernels[kernel] for kernel in order),
            after=tuple(_ascending(place[k] for k in self.after[kernel]) for kernel in order),
            writer={value: place[kernel] for value, kernel in self.writer.items()},
            readers={
                value: _ascending(place[k] for k in kernels)
                for value, kernels in self.readers.items()
            },
            copies=tuple((place[kernel], value) for kernel, value in self.copies),
        )


def _ascending(kernels: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(kernels))


def chip_dataflow(
    chip: ChipModel,
    arriving: Mapping[tuple[int, str], int],
    leaving: Mapping[tuple[int, str], tuple[int, ...]],
    on_host: Callable[[KernelNodes], bool] | None = None,
) -> ChipDataflow:
    """Follows the tensors of one chip.

    Args:
        chip: its model.
        arriving: as in `TransferPlan`.
        leaving: as in `TransferPlan`.
        on_host: whether the host runs a kernel, whose weights the chip then does not hold; none
            where None.

    Raises:
        ValueError: if an input of the chip comes over no wire; a fault of the splitter.
    """
    graph = chip.model.graph
    arrives = {
        value: arriving[chip.chip, value.name]
        for value in graph.inputs
        if value.name is not None and (chip.chip, value.name) in arriving
    }
    pasts = {pair.past for pair in chip.states}
    if missing := [n for n in chip.inputs if (chip.chip, n) not in arriving and n not in pasts]:
        raise ValueError(f"input '{missing[0]}' of chip {chip.chip} comes over no wire")
    constants, nodes = constants_and_placeable(graph)
    produced = {value for node in nodes for value in node.outputs}
    kernels = tuple(order_kernels(nodes))
    sent = {
        value: leaving[chip.chip, value.name]
        for value in graph.outputs
        if value.name is not None and (chip.chip, value.name) in leaving
    }
    memory = _Memory(sent, constants.difference(arrives, produced))
    for position, kernel in enumerate(kernels):
        holds = on_host is None or not on_host(kernel)
        for node in kernel.nodes:
            memory.run(position, node, holds)
    for value in dict.fromkeys(graph.outputs):
        memory.give(value)
    return ChipDataflow(
        kernels=kernels,
        after=_after(kernels),
        weights=tuple(memory.weights),
        arriving=arrives,
        writer=memory.writer,
        readers={value: tuple(found) for value, found in memory.readers.items()},
        leaving={value: tuple(found) for value, found in memory.leaving.items()},
        kept=frozenset(memory.kept),
        copies=tuple(memory.copies),
        states=_states(chip, memory.root),
    )


def _states(chip: ChipModel, root: Mapping[ir.Value, ir.Value]) -> tuple[HeldState, ...]:
    graph = chip.model.graph
    inputs = {value.name: value for value in graph.inputs}
    outputs = {value.name: value for value in graph.outputs}
    found: list[HeldState] = []
    for pair in chip.states:
        past, present = inputs[pair.past], outputs[pair.present]
        buffers = copies_held(past, present, chip.sequences)
        found.append(HeldState(past, present, root.get(present, present), buffers))
    return tuple(found)


def _after(kernels: Sequence[KernelNodes]) -> tuple[tuple[int, ...], ...]:
    """`after` of a `ChipDataflow`."""
    maker = {v: at for at, kernel in enumerate(kernels) for n in kernel.nodes for v in n.outputs}
    after: list[dict[int, None]] = [{} for _ in kernels]
    for position, kernel in enumerate(kernels):
        for node in kernel.nodes:
            for value in consumed_values(node):
                if maker.get(value, position) != position:
                    after[maker[value]][position] = None
    return tuple(tuple(found) for found in after)


@dataclass
class _Memory:
    """Writers and readers of each root's memory, found by following the nodes in order.

    Attributes:
        sent: transfers by output of the chip's model.
        constants: weights and shapes, which no node of the chip makes.
        root: the root of each view that shares memory.
        writer: as in `ChipDataflow`, like the rest.
        readers: dictionaries for their order.
        weights: likewise.
        leaving: transfers by root.
        kept: roots.
        copies: in the order of the kernels.
        copied: the values of `copies`.
    """

    sent: Mapping[ir.Value, tuple[int, ...]]
    constants: Set[ir.Value]
    root: dict[ir.Value, ir.Value] = field(default_factory=dict)
    writer: dict[ir.Value, int] = field(default_factory=dict)
    readers: dict[ir.Value, dict[int, None]] = field(default_factory=dict)
    weights: dict[ir.Value, None] = field(default_factory=dict)
    leaving: dict[ir.Value, list[int]] = field(default_factory=dict)
    kept: set[ir.Value] = field(default_factory=set)
    copies: list[tuple[int, ir.Value]] = field(default_factory=list)
    copied: set[ir.Value] = field(default_factory=set)

    def run(self, position: int, node: ir.Node, holds: bool) -> None:
        """Follows what a node of the kernel at `position` reads and writes.

        Args:
            position: of the kernel.
            node: one of its ops.
            holds: whether the chip holds the weights that it reads.
        """
        operands = consumed_values(node)
        if is_view(node):
            if self._shares_memory(node.outputs[0], operands[0]):
                # The shape operand of a view is known when the program is made.
                return
            self.copies.append((position, node.outputs[0]))
            self.copied.add(node.outputs[0])
        for value in operands:
            source = self.root.get(value, value)
            if holds or source not in self.constants:
                self._read(position, source)
        for value in attribute_weights(node) if holds else ():
            self.readers.setdefault(value, {})[position] = None
            self.weights.setdefault(value)
        for value in node.outputs:
            if value.name or value.uses():
                self.writer[value] = position

    def give(self, value: ir.Value) -> None:
        """Follows an output of the chip's model."""
        source = self.root.get(value, value)
        if value in self.sent:
            self.leaving.setdefault(source, []).extend(self.sent[value])
        else:
            self.kept.add(source)
        if source in self.constants:
            self.weights.setdefault(source)

    def _shares_memory(self, view: ir.Value, operand: ir.Value) -> bool:
        source = self.root.get(operand, operand)
        written = source in self.writer and source not in self.copied
        shares = written or view not in self.sent
        if shares:
            self.root[view] = source
        return shares

    def _read(self, position: int, source: ir.Value) -> None:
        if source in self.constants:
            source = memory_of(source)
        self.readers.setdefault(source, {})[position] = None
        if source in self.constants:
            self.weights.setdefault(source)


@dataclass(frozen=True)
class KernelNodes:
    """The ops of one kernel.

    Attributes:
        name: of the fusion group, or of the only op.
        nodes: in order.
    """

    name: str
    nodes: tuple[ir.Node, ...]


def order_kernels(nodes: Sequence[ir.Node]) -> list[KernelNodes]:
    """Groups ops by `metadata_props["mcm.group"]` and orders the groups.

    The order of `nodes` is kept where it can be: a group stands where its first op stands, or as
    soon after as its operands are there. A group that depends on itself through other ops cannot
    run as one kernel; each unbroken run of its ops becomes one.

    Args:
        nodes: ops of one chip in topological order.
    """
    groups = [node.metadata_props.get(GROUP_PROPERTY, "") for node in nodes]
    units = _whole_groups(groups)
    order, stuck = _topological(nodes, units)
    if stuck:
        units = _with_runs(units, stuck)
        order, _ = _topological(nodes, units)
    members: dict[int, list[int]] = {}
    for position, unit in enumerate(units):
        members.setdefault(unit, []).append(position)
    kernels: list[KernelNodes] = []
    for unit in order:
        chosen = members[unit]
        name = groups[chosen[0]] if len(chosen) > 1 else nodes[chosen[0]].name or ""
        kernels.append(KernelNodes(name, tuple(nodes[position] for position in chosen)))
    return kernels


def _whole_groups(groups: Sequence[str]) -> list[int]:
    """Unit of each op: the position of the first op of its group."""
    first: dict[str, int] = {}
    return [first.setdefault(g, i) if g else i for i, g in enumerate(groups)]


def _with_runs(units: Sequence[int], stuck: set[int]) -> list[int]:
    """Units with those that are `stuck` cut into runs of neighbours.

    Units that could be ordered have only such units before them, so they stay acyclic; runs of
    neighbours in a topological order are convex.
    """
    cut: list[int] = []
    for position, unit in enumerate(units):
        if unit not in stuck:
            cut.append(unit)
        elif position > 0 and units[position - 1] == unit:
            cut.append(cut[-1])
        else:
            cut.append(position)
    return cut


def _topological(nodes: Sequence[ir.Node], units: Sequence[int]) -> tuple[list[int], set[int]]:
    """Units in topological order, smallest first where there is a choice; and those in cycles."""
    of_node = [*zip(nodes, units, strict=True)]
    made_by = {value: unit for node, unit in of_node for value in node.outputs}
    edges = {
        (maker, unit)
        for node, unit in of_node
        for value in consumed_values(node)
        if (maker := made_by.get(value, unit)) != unit
    }
    used = set(units)
    order = topological(following_lists(len(nodes), sorted(edges)))
    order = [unit for unit in order if unit in used]
    return order, used - set(order)
