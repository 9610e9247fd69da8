"""The graph of kernels, coloured by where they run and how long they take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mcm_compiler.arrays.types import Floats, Ints
from mcm_compiler.page.contents import Section, View
from mcm_compiler.page.graph_layout import NODE_HEIGHT, NODE_WIDTH, drawing_of
from mcm_compiler.page.packed import pack_floats, pack_texts, pack_whole
from mcm_compiler.page.sources import Compiled
from mcm_compiler.text.units import count_text


def graph_section(compiled: Compiled) -> Section | None:
    """The graph of a compiled model; None where nothing was placed."""
    certificate = compiled.certificate
    if certificate is None or not certificate.problem.num_units:
        return None
    p = certificate.problem
    sources = np.repeat(p.tensor_producer, np.diff(p.tensor_ptr))
    made = sources >= 0
    data = graph_data(
        names=p.names,
        kinds=p.op_types or [""] * p.num_units,
        seconds=p.compute_s,
        places=certificate.placement,
        sources=sources[made],
        destinations=p.tensor_consumers[made],
    )
    data["place"] = "chip"
    data["placeNames"] = [f"chip {chip}" for chip in range(p.limits.num_chips)]
    # Kernels of one op have its name; what else a kernel computes can be searched for as well.
    fused = [i for i, members in enumerate(p.members) if tuple(members) != (p.names[i],)]
    data["fused"] = pack_whole(fused)
    data["members"] = pack_texts(["\n".join(p.members[i]) for i in fused])
    ops = sum(map(len, p.members))
    text = f"{count_text(p.num_units, 'kernel')} of {count_text(ops, 'op')}"
    return graph_part(text, data)


def graph_part(text: str, data: dict[str, Any]) -> Section:
    """The section of a graph.

    Args:
        text: how many of what it shows.
        data: from `graph_data`, with `place`, the word for where they run, and `placeNames`.
    """
    lead = (
        f"{text}, in the order of the data: down each column, then on at the top of the next. "
        "Drag to move, turn the wheel or press + and - to zoom, search by name.",
    )
    return Section("graph", "Graph", lead, View("graph", data, f"Graph of {text}"))


def graph_data(
    names: Sequence[str],
    kinds: Sequence[str],
    seconds: Floats,
    places: Ints,
    sources: Ints,
    destinations: Ints,
) -> dict[str, Any]:
    """What the page draws of a graph of N boxes and E edges.

    Args:
        names: `[N]`.
        kinds: `[N]`, types of ops.
        seconds: `[N]`, how long each takes.
        places: `[N]`, where each runs.
        sources: `[E]`, where edges begin: lower numbers than where they end.
        destinations: `[E]`, where they end.
    """
    drawing = drawing_of(len(names), sources, destinations)
    known = sorted(set(kinds))
    number = {kind: i for i, kind in enumerate(known)}
    return {
        "nodes": len(names),
        "width": drawing.width,
        "height": drawing.height,
        "box": [NODE_WIDTH, NODE_HEIGHT],
        "x": pack_floats(drawing.x),
        "y": pack_floats(drawing.y),
        "seconds": pack_floats(seconds),
        "places": pack_whole(places),
        "from": pack_whole(sources),
        "to": pack_whole(destinations),
        "kinds": known,
        "kind": pack_whole([number[kind] for kind in kinds]),
        "names": pack_texts(names),
    }
