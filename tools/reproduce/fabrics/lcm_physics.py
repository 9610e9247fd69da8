"""Remove effects of the flit simulator's physics one at a time: how periods and formulas change.

    python tools/reproduce/fabrics/lcm_physics.py tools/reproduce/data/fabric_measurements.npz
    python tools/reproduce/fabrics/lcm_physics.py --page

Recorded mappings are simulated again without one effect: simulator, mappings and code are the
same, only numbers of the fabric or of the problem differ. Formulas get the same numbers.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
from lcm_study.graphs import drawn_graphs
from lcm_study.played_again import run_study
from lcm_study.tables import between_marks

from mcm_compiler.arrays.types import Floats
from mcm_compiler.contracts.fabrics.fabric import IO, Fabric, MappingProblem, Mappings
from mcm_compiler.processes.staging import write_whole
from mcm_hardware.families.fabric.measuring.player import ENOUGH, FlitJudge
from mcm_models.mapping_model.data_set import MappingData
from mcm_models.mapping_model.figures import figures_of
from mcm_passes.families.fabric.formulas.analytic import Busiest, Heuristic, RoundTrips, WireLength
from mcm_passes.families.fabric.learning.collecting import MOST_HOPS

ROOT = Path(__file__).resolve().parents[3]
RECORD = ROOT / "tools" / "reproduce" / "data" / "lcm_physics.json"
PAGE = ROOT / "docs" / "results" / "fabrics.md"

PLENTY = 256
"""Credits of a stream, flits of an output register, and banks: more than are used."""

DEEP = 64
"""Flits behind a link, likewise."""

MORE = 8
"""Times the samples that a buffer holds. With endless ones no state would ever come back."""

FORMULAS = (WireLength(), Heuristic(), Busiest(), RoundTrips())

FASTER = 0.99
"""Share of its period below which a mapping counts as faster than before."""


@dataclass(frozen=True)
class Case:
    """What is played.

    Attributes:
        problem: laid out.
        fabric: on it.
        mappings: of the problem.
    """

    problem: MappingProblem
    fabric: Fabric
    mappings: Mappings


def on_fabric(**numbers: int) -> Callable[[Case], Case]:
    """Other numbers of the fabric."""
    return lambda case: replace(case, fabric=replace(case.fabric, **numbers))


def without_bursts(case: Case) -> Case:
    """What a firing makes is due at its end."""
    burst = np.minimum(case.problem.burst, 1)
    return replace(case, problem=replace(case.problem, burst=burst))


def without_full_buffers(case: Case) -> Case:
    """Memory units between stages hold several times as many samples."""
    depth = case.problem.depth * MORE
    return replace(case, problem=replace(case.problem, depth=depth))


def without_shared_channels(case: Case) -> Case:
    """Each I/O site has a memory channel of its own."""
    fabric = case.fabric
    sites = fabric.kind == IO
    channel = np.where(sites, np.cumsum(sites) - 1, -1).astype(fabric.channel.dtype)
    own = replace(fabric, channel=channel, num_channels=int(sites.sum()))
    return replace(case, fabric=own)


def without_multicast(case: Case) -> Case:
    """A stream for each destination, each with all of the flits."""
    problem, mappings = case.problem, case.mappings
    counts = np.diff(problem.leaf_ptr)
    split = replace(
        problem,
        source=np.repeat(problem.source, counts),
        flits=np.repeat(problem.flits, counts),
        leaf_ptr=np.arange(len(problem.leaf) + 1, dtype=problem.leaf_ptr.dtype),
    )
    turn = np.ascontiguousarray(np.repeat(mappings.turn, counts, axis=1))
    return replace(case, problem=split, mappings=Mappings(mappings.site, turn))


ADDED: dict[str, Callable[[Case], Case]] = {
    "windows of credits": on_fabric(window_flits=PLENTY),
    "cycles of a hop, but one": on_fabric(hop_cycles=1),
    "full FIFOs behind links": on_fabric(fifo_flits=DEEP),
    "small output registers": on_fabric(output_flits=PLENTY),
    "bursts": without_bursts,
    "bank conflicts": on_fabric(banks=PLENTY),
    "full buffers between stages": without_full_buffers,
    "shared memory channels": without_shared_channels,
}
"""What takes time besides links and ports, and how it is taken away."""


def without_all(case: Case) -> Case:
    """Only work, ports and links are left, and the way of the first flit."""
    return reduce(lambda left, change: change(left), ADDED.values(), case)


EFFECTS: dict[str, Callable[[Case], Case]] = {
    "nothing": lambda case: case,
    **ADDED,
    "multicast": without_multicast,
    "all but links and ports": without_all,
}
"""What is taken away, by name; the last one leaves multicast."""

UNSHOWN = {"nothing", "bank conflicts", "full buffers between stages"}
"""Rows that the page leaves to the record."""


@dataclass(frozen=True)
class Played:
    """Of the mappings of a graph, with something taken away.

    Attributes:
        period: `[B]`, measured.
        inexact: `[B]`, whether the play was given up.
        bound: of the problem on the fabric.
        guessed: `[B]` of each formula.
    """

    period: Floats
    inexact: np.ndarray
    bound: float
    guessed: dict[str, Floats]


def played(case: Case, judge: FlitJudge) -> Played:
    """What the judge measures, and what formulas say."""
    found = judge.measure(case.problem, case.fabric, case.mappings)
    return Played(
        found.period_cycles,
        found.error > 0,
        judge.bound_cycles(case.problem, case.fabric),
        {
            model.name: model.prepared(case.problem, case.fabric).period_cycles(case.mappings)
            for model in FORMULAS
        },
    )


def measured(data: MappingData, count: int) -> dict[str, Any]:
    """A row for each effect, over the mappings with exact labels of some graphs.

    Args:
        data: measured mappings.
        count: graphs, drawn with the data's seed.
    """
    judge = FlitJudge(most_hops=MOST_HOPS, enough=ENOUGH)
    graphs = drawn_graphs(data, count)
    before = np.concatenate([graph.period_cycles for graph in graphs])
    rows: dict[str, Any] = {}
    for name, change in EFFECTS.items():
        found = [
            played(change(Case(graph.problem, data.fabric, graph.mappings)), judge)
            for graph in graphs
        ]
        rows[name] = row_of(found, before)
        print(name, rows[name]["ratio"], file=sys.stderr, flush=True)
    return {
        "graphs": len(graphs),
        "mappings": len(before),
        "learned": dataclasses.asdict(data.learned),
        "rows": rows,
    }


def row_of(found: Sequence[Played], before: Floats) -> dict[str, Any]:
    """Figures of what was played."""
    periods, bounds = [one.period for one in found], [one.bound for one in found]
    ratio = np.concatenate(periods) / before
    low, high = np.quantile(ratio, [0.05, 0.95])
    return {
        "ratio": round(float(np.exp(np.log(ratio).mean())), 4),
        "5 %": round(float(low), 4),
        "95 %": round(float(high), 4),
        "faster": round(float((ratio < FASTER).mean()), 4),
        "inexact": round(float(np.concatenate([one.inexact for one in found]).mean()), 4),
        "formulas": {
            name: dataclasses.asdict(
                figures_of([one.guessed[name] for one in found], periods, bounds)
            )
            for name in found[0].guessed
        },
    }


def write_page(record: dict[str, Any]) -> None:
    """Writes the table into the page."""
    lines = [
        f"{record['graphs']} graphs, {record['mappings']} mappings",
        "",
        "| without | period over that with it | 5 to 95 % | 1 % faster or more "
        "| error of `round-trips` |",
        "|---|---:|---|---:|---:|",
    ]
    for name in EFFECTS:
        row = record["rows"][name]
        if name not in UNSHOWN:
            lines.append(
                f"| {name} | {row['ratio']:.3f} | {row['5 %']:.3f} to {row['95 %']:.3f} "
                f"| {row['faster']:.0%} | {row['formulas']['round-trips']['error']:.3f} |"
            )
    write_whole(PAGE, between_marks(PAGE.read_text(), "physics", "\n".join(lines)).encode())


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the record, or the page."""
    return run_study(__doc__, RECORD, measured, write_page, argv)


if __name__ == "__main__":
    sys.exit(main())
