"""Estimate the order of a graph's mappings without simulating them to the end.

    python tools/reproduce/fabrics/lcm_knowable.py tools/reproduce/data/fabric_measurements.npz
    python tools/reproduce/fabrics/lcm_knowable.py --page

Guesses for measured mappings that no model makes:

- *turned by half*: the period of the mapping turned about the middle of the mesh. All distances,
  loads and trees are the same; only who is served first among equals differs. No model that sees
  distances and loads can be asked for more.
- *first samples*: the period of a play that is broken off after so many samples.
- fabrics that differ from the measured one in one number: a model with all of the physics, of which
  one is slightly wrong.

Formulas on the same mappings are for comparison, and the time of an answer.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from lcm_accuracy import Guesses, figures, of_origin
from lcm_study.graphs import drawn_graphs
from lcm_study.played_again import run_study
from lcm_study.tables import between_marks, figures_table

from mcm_compiler.arrays.types import Floats, Ints
from mcm_compiler.contracts.fabrics.fabric import Fabric, Mappings
from mcm_compiler.processes.staging import write_whole
from mcm_hardware.families.fabric.fabric_package import fabric_12
from mcm_hardware.families.fabric.measuring.player import ENOUGH, FlitJudge
from mcm_models.mapping_model.data_set import FORMULA, RANDOM, MappingData, MeasuredGraph
from mcm_passes.families.fabric.formulas.analytic import RoundTrips, WireLength
from mcm_passes.families.fabric.learning.collecting import MOST_HOPS

ROOT = Path(__file__).resolve().parents[3]
RECORD = ROOT / "tools" / "reproduce" / "data" / "lcm_knowable.json"
PAGE = ROOT / "docs" / "explanation" / "learned-mapping.md"

FIRST_SAMPLES = (8, 16)
"""Samples after which plays are broken off; the second half of them is the period."""

KINDS = {"both": None, "drawn": RANDOM, "searched": FORMULA}
"""Origins of mappings, as the page calls them."""

UNSHOWN = {"wire-length", "first 16 samples"}
"""Rows that the page leaves to the record."""

Asked = Callable[[MeasuredGraph], Floats]
"""Periods that are guessed for the mappings of a graph."""


def near_fabrics(fabric: Fabric) -> dict[str, Fabric]:
    """Fabrics that differ from one in one number."""
    return {
        "a hop takes a cycle more": dataclasses.replace(fabric, hop_cycles=fabric.hop_cycles + 1),
        "a hop takes a cycle less": dataclasses.replace(fabric, hop_cycles=fabric.hop_cycles - 1),
        "a credit less": dataclasses.replace(fabric, window_flits=fabric.window_flits - 1),
        "FIFOs twice as deep": dataclasses.replace(fabric, fifo_flits=2 * fabric.fifo_flits),
        "four times the banks": dataclasses.replace(fabric, banks=4 * fabric.banks),
    }


def askers(fabric: Fabric) -> dict[str, Asked]:
    """Who is asked, by name."""
    judge = FlitJudge(most_hops=MOST_HOPS, enough=ENOUGH)
    turned = half_turn(fabric)
    found: dict[str, Asked] = {
        model.name: lambda graph, model=model: model.prepared(graph.problem, fabric).period_cycles(
            graph.mappings
        )
        for model in (WireLength(), RoundTrips())
    }
    for count in FIRST_SAMPLES:
        found[f"first {count} samples"] = played(FlitJudge(most_samples=count), fabric)
    for name, near in near_fabrics(fabric).items():
        found[name] = played(judge, near)
    found["turned by half"] = lambda graph: played(judge, fabric)(
        dataclasses.replace(
            graph, mappings=Mappings(turned[graph.mappings.site], graph.mappings.turn)
        )
    )
    return found


def played(judge: FlitJudge, fabric: Fabric) -> Asked:
    """Asks a judge, however sure it is."""
    return lambda graph: judge.measure(graph.problem, fabric, graph.mappings).period_cycles


def half_turn(fabric: Fabric) -> Ints:
    """`[S]`, the site of the same kind on the opposite side of the middle of the mesh.

    Raises:
        ValueError: if there is none.
    """
    order = np.lexsort((fabric.switch, fabric.kind))
    opposite = np.lexsort((fabric.num_switches - 1 - fabric.switch, fabric.kind))
    turned = np.empty(fabric.num_sites, np.int32)
    turned[order] = opposite
    if np.any(fabric.switch + fabric.switch[turned] != fabric.num_switches - 1):
        raise ValueError(f"{fabric.name} does not look the same from either end")
    return turned


def names() -> list[str]:
    """Of all who are asked, in the order of tables."""
    return list(askers(fabric_12().fabric))


def told(data: MappingData, count: int) -> dict[str, Any]:
    """What everyone tells of the mappings with exact labels of some graphs.

    Args:
        data: measured on a fabric that looks the same from either end.
        count: graphs, drawn with the data's seed.

    Returns:
        By kind of mapping and by name, figures; and by name milliseconds of CPU time of an answer.
    """
    graphs = drawn_graphs(data, count)
    mappings = sum(len(graph) for graph in graphs)
    rows: dict[str, dict[str, list[dict[str, float]]]] = {kind: {} for kind in KINDS}
    spent: dict[str, float] = {}
    for name, ask in askers(data.fabric).items():
        ask(graphs[0])  # compiles
        began = time.process_time()
        guessed: Guesses = dict(enumerate(ask(graph) for graph in graphs))
        spent[name] = round(1e3 * (time.process_time() - began) / mappings, 2)
        for kind, origin in KINDS.items():
            asked = (guessed, graphs) if origin is None else of_origin(guessed, graphs, origin)
            rows[kind][name] = [dataclasses.asdict(figures(*asked))]
        print(f"{name}: {spent[name]} ms", file=sys.stderr, flush=True)
    return {
        "graphs": len(graphs),
        "mappings": mappings,
        "learned": dataclasses.asdict(data.learned),
        "rows": rows,
        "ms": spent,
    }


def write_page(record: dict[str, Any]) -> None:
    """Writes the table of searched mappings into the page."""
    rows = {name: record["rows"]["searched"][name] for name in names() if name not in UNSHOWN}
    text = f"Searched mappings of {record['graphs']} graphs\n\n"
    text += figures_table("estimate", rows)
    write_whole(PAGE, between_marks(PAGE.read_text(), "knowable", text).encode())


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the record, or the page."""
    return run_study(__doc__, RECORD, told, write_page, argv)


if __name__ == "__main__":
    sys.exit(main())
