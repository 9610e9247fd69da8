"""What the table has to show: gaps, portfolio against members, search with the evaluator."""

from __future__ import annotations

import math
from typing import Any

from harness.bars import Bar, median_bar
from partition_cases.cells import LEVEL, LONG_LEVEL, PORTFOLIO, begins_with_known, members, slack
from partition_cases.table_data import best_bound_s, has_period, of_level

from mcm_compiler.contracts.levels import load_level

GAP_BARS = {
    ("ResNet-50", "relay"): 0.001,
    ("ResNet-50", "strict"): 0.001,
    ("Inception-V3", "relay"): 0.001,
    ("Inception-V3", "strict"): 0.001,
    ("BERT-large", "relay"): 0.001,
    ("BERT-large", "strict"): 0.001,
}
"""Largest gap of the default portfolio on the roomy package."""

LONG_GAP_BARS = {("NMT unrolled", "relay"): 0.005}
"""Largest gap of any cell of the case, that of the long search among them."""

PUBLISHED = {
    "layer_bert24": 17.7899,
    "layer_gnmt": 32.9107,
    "layer_resnet50": 34.2229,
    "op_bert3": 27.9186,
}
"""Periods of the published inputs without any rule of a ring, to four digits after the point."""

ROUNDING = 5e-5 + 1e-9

MOST_CPU_S = 10.0

EQUAL = 1e-9
"""Relative difference of periods that counts as none."""


def bars(data: Any) -> list[Bar]:
    """All bars that the data has figures for."""
    found: list[Bar] = []
    for case in data["cases"]:
        found += _gap_bars(case)
    for cell in data["placements"]:
        bar = PUBLISHED.get(cell["input"])
        if bar is None or cell["rule"] != "none" or cell["strategy"] or not has_period(cell):
            continue
        name = cell["input"]
        found.append(median_bar(f"{name}_period", [cell["period"]], bar + ROUNDING))
        found.append(median_bar(f"{name}_cpu_s", [cell["cpu_s"]], MOST_CPU_S))
    lost = [loss for case in data["cases"] for loss in losses(case)]
    found.append(median_bar("portfolio_losses", [float(len(lost))], 1.0))
    return found


def losses(case: Any) -> list[str]:
    """Where a member of the portfolio beats it at the same seed and effort.

    The portfolio lets the evaluator choose among partitions whose periods differ by no more than
    its slack. So a member beats it by a period that is shorter by more than that, or by one that is
    no longer and that the evaluator likes no less, if one of both is better. A period within the
    level's gap of a bound ends it, so that only a shorter one counts there. Members that begin
    with what others have found do something else alone, and are not compared.
    """
    cells = of_level(case, LEVEL)
    lost: list[str] = []
    for chosen in (c for c in cells if c["strategy"] == PORTFOLIO):
        for rival in cells:
            if rival["strategy"] not in _rivals() or rival["seed"] != chosen["seed"]:
                continue
            if has_period(rival) and (not has_period(chosen) or _beats(rival, chosen)):
                lost.append(f"{rival['strategy']} (seed {rival['seed']})")
    return lost


def compared(case: Any) -> int:
    """Pairs of the portfolio and a member with the same seed."""
    cells = of_level(case, LEVEL)
    seeds = [c["seed"] for c in cells if c["strategy"] == PORTFOLIO]
    rivals = [c["seed"] for c in cells if c["strategy"] in _rivals()]
    return sum(rivals.count(seed) for seed in seeds)


def _rivals() -> set[str]:
    return {text for text in members(PORTFOLIO) if not begins_with_known(text)}


def long_search(case: Any) -> tuple[Any, Any] | None:
    """The default portfolio's cell and that of the long search, where the evaluator ran both."""
    normal = [c for c in of_level(case, LEVEL) if c["strategy"] == PORTFOLIO and has_period(c)]
    long = [c for c in of_level(case, LONG_LEVEL) if has_period(c)]
    if not normal or not long:
        return None
    return min(normal, key=lambda c: c["seed"]), min(long, key=lambda c: c["seed"])


def simulated_s(cell: Any) -> float:
    """The evaluator's period; infinite where it refuses the partition."""
    return math.inf if cell["simulated_s"] is None else float(cell["simulated_s"])


def _beats(rival: Any, chosen: Any) -> bool:
    shorter = rival["period_s"] / chosen["period_s"] - 1.0
    if shorter < -slack(PORTFOLIO) - EQUAL:
        return True
    if chosen["period_s"] <= chosen["bound_s"] * (1.0 + load_level(LEVEL).gap):
        return False  # it has ended there, and no further member has run
    here, there = simulated_s(rival), simulated_s(chosen)
    evaluated = 0.0 if here == there else here / there - 1.0
    return shorter <= EQUAL and evaluated <= EQUAL and min(shorter, evaluated) < -EQUAL


def _gap_bars(case: Any) -> list[Bar]:
    if case["package"] != "roomy":
        return []
    key = (case["model"], case["routing"])
    name = f"{case['model'].lower().replace(' ', '_')}_{case['routing']}_gap"
    bound_s = best_bound_s(case)
    cells = [c for c in case["cells"] if has_period(c)]
    if key in GAP_BARS:
        chosen = [c for c in cells if c["strategy"] == PORTFOLIO and c["level"] == LEVEL]
        gaps = [c["period_s"] / bound_s - 1.0 for c in chosen]
        return [median_bar(name, gaps, GAP_BARS[key] + EQUAL)] if gaps else []
    if key in LONG_GAP_BARS:
        gaps = [c["period_s"] / bound_s - 1.0 for c in cells if c["level"] == LONG_LEVEL]
        return [median_bar(name, gaps, LONG_GAP_BARS[key] + EQUAL)] if gaps else []
    return []
