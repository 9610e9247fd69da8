"""Which op of one model is which of another: by name, and by structure where names differ.

Ops of equal name and type are the same. Of the others, those with the same place in the graph match
(our derivation, after the refinement of colours by Weisfeiler and Leman). These are first those for
which all that leads to them is alike, then those that lead to the same. At last ops in the gaps
between matches are matched by type and order. Each step is linear in the graph.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from mcm_compiler.graph.constants import consumed_values, placeable_nodes

Pair = tuple[int, int]


@dataclass(frozen=True)
class OpMatch:
    """Pairs of an op of the first model and one of the second, by index.

    Attributes:
        by_name: ops of equal name and type, in the order of the first model.
        by_structure: ops of other names that stand in the same place, likewise.
        only_first: ops of the first model that the second has not.
        only_second: the other way round.
    """

    by_name: tuple[Pair, ...]
    by_structure: tuple[Pair, ...]
    only_first: tuple[int, ...]
    only_second: tuple[int, ...]

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """All pairs, those by name first."""
        return (*self.by_name, *self.by_structure)


def match_ops(first: PlacedOps, second: PlacedOps) -> OpMatch:
    """Finds each op of one model in the other."""
    partner = [-1] * len(first.names)
    taken = [False] * len(second.names)
    by_key = {key: i for i, key in enumerate(zip(second.names, second.op_types, strict=True))}
    by_name: list[Pair] = []
    for i, key in enumerate(zip(first.names, first.op_types, strict=True)):
        j = by_key.get(key, -1)
        if key[0] and j >= 0 and not taken[j]:
            partner[i], taken[j] = j, True
            by_name.append((i, j))
    named = {i for i, _ in by_name}
    if len(named) < len(partner) and not all(taken):
        followed = (_followers(first.reads), _followers(second.reads))
        _pair_alike(partner, taken, _colours(first, first.reads), _colours(second, second.reads))
        _pair_alike(
            partner,
            taken,
            _colours(first, followed[0], backwards=True),
            _colours(second, followed[1], backwards=True),
        )
        _pair_in_gaps(first, second, partner, taken)
    return OpMatch(
        tuple(by_name),
        tuple((i, j) for i, j in enumerate(partner) if j >= 0 and i not in named),
        tuple(i for i, j in enumerate(partner) if j < 0),
        tuple(j for j, found in enumerate(taken) if not found),
    )


def _followers(reads: Sequence[Sequence[int]]) -> list[list[int]]:
    """The ops that read each op, in graph order."""
    found: list[list[int]] = [[] for _ in reads]
    for reader, makers in enumerate(reads):
        for maker in dict.fromkeys(makers):
            found[maker].append(reader)
    return found


def _colours(
    ops: PlacedOps, linked: Sequence[Sequence[int]], *, backwards: bool = False
) -> list[bytes]:
    """A digest of each op's type and of all that leads to it, or that it leads to.

    What an op reads has an order; what reads it has none, so that digests of that are sorted.
    """
    colours: list[bytes] = [b""] * len(ops.names)
    order = range(len(colours))
    for i in reversed(order) if backwards else order:
        beside = [colours[other] for other in linked[i]]
        text = b"|".join([ops.op_types[i].encode(), *(sorted(beside) if backwards else beside)])
        colours[i] = hashlib.blake2b(text, digest_size=16).digest()
    return colours


def _pair_alike(
    partner: list[int], taken: list[bool], first: Sequence[bytes], second: Sequence[bytes]
) -> None:
    """Pairs ops without a partner whose colours are equal, those of one colour in graph order."""
    free: defaultdict[bytes, list[int]] = defaultdict(list)
    for j in range(len(second) - 1, -1, -1):
        if not taken[j]:
            free[second[j]].append(j)
    for i, colour in enumerate(first):
        if partner[i] < 0 and free.get(colour):
            j = free[colour].pop()
            partner[i], taken[j] = j, True


def _pair_in_gaps(
    first: PlacedOps, second: PlacedOps, partner: list[int], taken: list[bool]
) -> None:
    """Pairs what is left between two ops that were found, from both ends while types agree."""
    end = len(second.names)
    # A gap lies between ops whose partners stand one after the other in the second graph.
    before = -1
    gap: list[int] = []
    for i in range(len(first.names) + 1):
        j = partner[i] if i < len(partner) else end
        if i < len(partner) and j < 0:
            gap.append(i)
            continue
        if gap and j > before:
            _pair_ends(
                first, second, gap, [k for k in range(before + 1, j) if not taken[k]], partner
            )
            for one in gap:
                if partner[one] >= 0:
                    taken[partner[one]] = True
        gap, before = [], max(before, j)


def _pair_ends(
    first: PlacedOps, second: PlacedOps, left: list[int], right: list[int], partner: list[int]
) -> None:
    low = 0
    while (
        low < min(len(left), len(right))
        and first.op_types[left[low]] == second.op_types[right[low]]
    ):
        partner[left[low]] = right[low]
        low += 1
    high = 0
    while (
        high < min(len(left), len(right)) - low
        and first.op_types[left[-1 - high]] == second.op_types[right[-1 - high]]
    ):
        partner[left[-1 - high]] = right[-1 - high]
        high += 1


@dataclass(frozen=True, eq=False)
class PlacedOps:
    """N ops in graph order.

    Attributes:
        names: `[N]`.
        op_types: `[N]`, with the domain where it is not ONNX's own.
        places: `[N]`, chips or devices of each, ascending; empty where it runs nowhere.
        reads: `[N]`, indices of the ops whose results each op reads, in the order of its inputs.
    """

    names: tuple[str, ...]
    op_types: tuple[str, ...]
    places: tuple[tuple[str, ...], ...]
    reads: tuple[tuple[int, ...], ...]


def placed_ops(graph: ir.Graph, places_of: Callable[[ir.Node], tuple[str, ...]]) -> PlacedOps:
    """The ops of a graph that some chip or device runs.

    Args:
        graph: the source model.
        places_of: says where a node runs.
    """
    nodes = placeable_nodes(graph)
    index = {node: place for place, node in enumerate(nodes)}
    reads: list[tuple[int, ...]] = []
    for node in nodes:
        makers = (value.producer() for value in consumed_values(node))
        reads.append(tuple(index[maker] for maker in makers if maker in index))
    return PlacedOps(
        tuple(node.name or "" for node in nodes),
        tuple(f"{n.domain}.{n.op_type}" if n.domain else n.op_type for n in nodes),
        tuple(places_of(node) for node in nodes),
        tuple(reads),
    )
