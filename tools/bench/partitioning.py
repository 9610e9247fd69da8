"""How good the partitions of every strategy are, and what they cost.

Each cell is one strategy on one problem with the deterministic effort of `-O2`, in a process of
its own. `*_gap` is the gap of the default portfolio on the roomy package, by the rule.
`portfolio_losses` counts strategies that beat the portfolio although it has them as members, at
the same seed and effort. `--update` writes the table to
tools/bench/data/partitioning.json and docs/partitioning-results.md.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.bars import Bar, context, median_bar
from harness.command_line import Settings, run_script

if TYPE_CHECKING:
    from partition_cases.cases import Case
    from partition_cases.cells import Cell

GAP_BARS = {
    ("ResNet-50", "relay"): 0.001,
    ("ResNet-50", "strict"): 0.001,
    ("Inception-V3", "relay"): 0.001,
    ("Inception-V3", "strict"): 0.001,
    ("BERT-large", "relay"): 0.001,
    ("BERT-large", "strict"): 0.001,
    ("NMT unrolled", "relay"): 0.005,
}

PORTFOLIO = "portfolio"


def measure(settings: Settings) -> list[Bar]:
    """All bars; over one small model where `settings.quick`."""
    from partition_cases.cases import MODELS, QUICK, cases_of
    from partition_cases.cells import run_cells, strategies, warm_up
    from partition_cases.table import as_data, write

    names = strategies()
    results: list[tuple[Case, list[Cell]]] = []
    warm = False
    for model in QUICK if settings.quick else MODELS:
        for case in cases_of(model):
            if not warm:
                warm_up(case, names)
                warm = True
            start = time.perf_counter()
            cells = run_cells(case, names)
            results.append((case, cells))
            seconds = time.perf_counter() - start
            print(f"{case.model}, {case.package}, {case.routing}: {seconds:.0f} s", file=sys.stderr)
    if settings.update:
        write(as_data(results, context()))
    return [*_gaps(results), _losses(results)]


def _gaps(results: Sequence[tuple[Case, Sequence[Cell]]]) -> list[Bar]:
    bars: list[Bar] = []
    for case, cells in results:
        bar = GAP_BARS.get((case.model, case.routing))
        if bar is None or case.package != "mcm36":
            continue
        bound_s = max(cell.bound_s for cell in cells)
        gaps = [c.period_s / bound_s - 1.0 for c in cells if c.strategy == PORTFOLIO]
        if gaps:
            name = f"{case.model.lower().replace(' ', '_')}_{case.routing}_gap"
            bars.append(median_bar(name, gaps, bar))
    return bars


def _losses(results: Sequence[tuple[Case, Sequence[Cell]]]) -> Bar:
    """Members are compared at the portfolio's seed; 5e-4 is its slack for the simulator."""
    from mcm_passes.strategies.portfolio import Portfolio

    allowed = 1.0 + Portfolio().slack + 1e-9
    members = {text.partition("{")[0] for text in Portfolio().members}
    lost = 0
    for case, cells in results:
        chosen = next((c for c in cells if c.strategy == PORTFOLIO), None)
        if chosen is None:
            continue
        rivals = [c for c in cells if c.strategy in members and c.seed == chosen.seed]
        for rival in rivals:
            if rival.period_s * allowed < chosen.period_s:
                print(
                    f"{case.model}, {case.package}, {case.routing}: {rival.strategy} beats it",
                    file=sys.stderr,
                )
                lost += 1
    return median_bar("portfolio_losses", [float(lost)], 1.0)


if __name__ == "__main__":
    sys.exit(run_script(__doc__, measure, can_update=True))
