"""Where the tensors of one chip live: which memory holds them, who writes it, who reads it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import onnx_ir as ir

from mcm_compiler.ir.constants import (
    body_weights,
    constant_values,
    consumed_values,
    placeable_nodes,
)
from mcm_compiler.target import ChipModel
from mcm_hardware.kernel_order import KernelNodes, order_kernels
from mcm_hardware.kernel_work import is_view


@dataclass(frozen=True)
class ChipDataflow:
    """The tensors of one chip, by *root*: the value whose memory holds them.

    A view shares the memory of its operand. Only a view that leaves the chip, of memory that no
    kernel of the chip writes (a receive buffer, a weight), is copied and is its own root.

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
) -> ChipDataflow:
    """Follows the tensors of one chip.

    Args:
        chip: its model.
        arriving: as in `TransferPlan`.
        leaving: as in `TransferPlan`.

    Raises:
        ValueError: if an input of the chip comes over no wire; a fault of the splitter.
    """
    graph = chip.model.graph
    arrives = {
        value: arriving[chip.chip, value.name]
        for value in graph.inputs
        if value.name is not None and (chip.chip, value.name) in arriving
    }
    if missing := [name for name in chip.inputs if (chip.chip, name) not in arriving]:
        raise ValueError(f"input '{missing[0]}' of chip {chip.chip} comes over no wire")
    nodes = placeable_nodes(graph)
    produced = {value for node in nodes for value in node.outputs}
    constants = constant_values(graph).difference(arrives, produced)
    kernels = tuple(order_kernels(nodes))
    sent = {
        value: leaving[chip.chip, value.name]
        for value in graph.outputs
        if value.name is not None and (chip.chip, value.name) in leaving
    }
    root: dict[ir.Value, ir.Value] = {}
    writer: dict[ir.Value, int] = {}
    readers: dict[ir.Value, dict[int, None]] = {}
    weights: dict[ir.Value, None] = {}
    copies: list[tuple[int, ir.Value]] = []
    maker = {v: at for at, kernel in enumerate(kernels) for n in kernel.nodes for v in n.outputs}
    after: list[dict[int, None]] = [{} for _ in kernels]
    for position, kernel in enumerate(kernels):
        for node in kernel.nodes:
            operands = consumed_values(node)
            for value in operands:
                if maker.get(value, position) != position:
                    after[maker[value]][position] = None
            if is_view(node):
                source = root.get(operands[0], operands[0])
                if source in writer or node.outputs[0] not in sent:
                    root[node.outputs[0]] = source
                    # The shape operand of a view is known when the program is made.
                    continue
                copies.append((position, node.outputs[0]))
            for value in operands:
                source = root.get(value, value)
                readers.setdefault(source, {})[position] = None
                if source in constants:
                    weights.setdefault(source)
            for value in body_weights(node):
                readers.setdefault(value, {})[position] = None
                weights.setdefault(value)
            for value in node.outputs:
                if value.name or value.uses():
                    writer[value] = position
    sends: dict[ir.Value, list[int]] = {}
    kept: set[ir.Value] = set()
    for value in dict.fromkeys(graph.outputs):
        source = root.get(value, value)
        if value in sent:
            sends.setdefault(source, []).extend(sent[value])
        else:
            kept.add(source)
        if source in constants:
            weights.setdefault(source)
    return ChipDataflow(
        kernels=kernels,
        after=tuple(tuple(found) for found in after),
        weights=tuple(weights),
        arriving=arrives,
        writer=writer,
        readers={value: tuple(found) for value, found in readers.items()},
        leaving={value: tuple(found) for value, found in sends.items()},
        kept=frozenset(kept),
        copies=tuple(copies),
    )
