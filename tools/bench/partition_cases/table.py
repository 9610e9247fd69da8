"""The data as a page of the documentation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from partition_cases.cells import LEVEL, PORTFOLIO, slack
from partition_cases.checks import EQUAL, compared, long_search, losses, simulated_s
from partition_cases.packages import PACKAGE, TIGHTNESS
from partition_cases.table_data import best_bound_s, has_period, of_level


def render(data: Any) -> str:
    """docs/results/partitioning-results.md."""
    cases = data["cases"]
    lines = _introduction(data)
    lines += ["", "## By case", "", *_overview_lines(cases)]
    lines += ["", "## By strategy", "", *_strategy_lines(cases)]
    lines += ["", "## Tight packages", "", *_tightness_lines(data["tightness"])]
    lines += ["", "## The simulator in the loop", "", *_long_lines(data)]
    lines += ["", "## Device-placement inputs", "", *_placement_lines(data["placements"])]
    lines += ["", "## Reproduce", "", *_reproduction(data)]
    return "\n".join(lines) + "\n"


def _introduction(data: Any) -> list[str]:
    found = [_first(case) for case in data["cases"]]
    pairs = zip(data["cases"], found, strict=True)
    ratios = [cell["period_s"] / best_bound_s(case) for case, cell in pairs if cell]
    optimal = sum(ratio <= 1 + EQUAL for ratio in ratios)
    beaten = [case for case in data["cases"] if losses(case)]
    text = [
        "# Partitioning results",
        "",
        "How near to optimal are the classical strategies when they cut a model into one pipeline?",
        f"`{PORTFOLIO}`, the default of `-O{LEVEL}`, finds a proven optimum in {optimal} of",
        f"{len(data['cases'])} cases; its period is {_mean(ratios):.3f} times the bound in the",
        "geometric mean, and the optimum may be above the bound. With the same seed and effort no",
        f"member is faster by more than its slack of {100 * slack(PORTFOLIO):g} %"
        + (f", but for {len(beaten)} cases;" if beaten else ";"),
        "members with `start=known`, which begin elsewhere alone, are not compared.",
        "",
        "Periods are those of the analytic model (roofline), bounds are proven under it, and the",
        "effort is deterministic. Divided kernels and replicas are in",
        "[utilisation](utilisation.md).",
    ]
    if data["missing"]:
        text += ["", f"{data['missing']} cells of these tables have not been measured."]
    return text


def _first(case: Any) -> Any:
    """The portfolio's cell of the first seed, or None."""
    found = [c for c in of_level(case, LEVEL) if has_period(c) and c["strategy"] == PORTFOLIO]
    return min(found, key=lambda cell: cell["seed"], default=None)


def _overview_lines(cases: Sequence[Any]) -> list[str]:
    lines = [
        "| case | op groups | bound, us | portfolio, us | gap | simulated | CPU, s | faster |",
        "|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    for case in cases:
        bound_s, first = best_bound_s(case), _first(case)
        row = [_title(case), str(case["units"]), _us(bound_s)]
        if first is None:
            row += ["none found" if of_level(case, LEVEL) else "not measured", "", "", "", ""]
        else:
            fits = first["simulated_s"] is not None
            row += [_us(first["period_s"]), _percent(first["period_s"] / bound_s)]
            row += [_percent(simulated_s(first) / bound_s) if fits else "does not fit"]
            row += [f"{first['cpu_s']:.2f}", _faster(case, first["period_s"])]
        lines.append(f"| {' | '.join(row)} |")
    lines += ["", "*Simulated* is how far the simulator's period is above the same bound."]
    return lines


def _faster(case: Any, period_s: float) -> str:
    """The best strategy that beats a period, if any does."""
    others = [c for c in of_level(case, LEVEL) if has_period(c)]
    best = min(others, key=lambda c: c["period_s"])
    if best["period_s"] > period_s * (1 - slack(PORTFOLIO)):
        return ""
    return f"`{best['strategy']}`: {_us(best['period_s'])}"


def _strategy_lines(cases: Sequence[Any]) -> list[str]:
    """Of each strategy: cases solved, distance to the bound, processor time."""
    names = sorted({c["strategy"] for case in cases for c in of_level(case, LEVEL)})
    lines = [
        "| strategy | found | optimal | period over bound | worst | CPU, s |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name in names:
        cells = [
            (cell, best_bound_s(case))
            for case in cases
            for cell in of_level(case, LEVEL)
            if cell["strategy"] == name
        ]
        ratios = [cell["period_s"] / bound_s for cell, bound_s in cells if has_period(cell)]
        row = [f"`{name}`", f"{len(ratios)} of {len(cells)}"]
        row.append(str(sum(ratio <= 1 + EQUAL for ratio in ratios)))
        row += [f"{_mean(ratios):.3f}", f"{max(ratios):.2f}"] if ratios else ["", ""]
        row.append(f"{sum(cell.get('cpu_s', 0.0) for cell, _ in cells):.1f}")
        lines.append(f"| {' | '.join(row)} |")
    lines += ["", "Geometric means over what each strategy found; processor time over all cases."]
    return lines


def _tightness_lines(rows: Sequence[Any]) -> list[str]:
    lines = [
        "A weight needs a chip with memory for inputs and outputs of its operators, too. So chips",
        f"with {TIGHTNESS:g} times the weights together often do not exist as 36 small chips.",
        f"*tight* has {TIGHTNESS:g} times the weights on as many chips as possible, *tight36* all",
        "chips with as little memory as possible. Both limits are proven under the compiler's",
        "estimate of memory unless the table says otherwise; the reasons are in the data.",
        "",
        f"| model | weights | {TIGHTNESS:g} times on all chips | tight | tight36 |",
        "|---|---:|---|---|---|",
    ]
    for row in rows:
        if not has_period(row):
            lines.append(f"| {row['model']} | | {row['message']} | | |")
            continue
        cells = [row["model"], f"{row['weights_mib']:.1f} MiB", _VERDICTS[row["at_bar"]["verdict"]]]
        cells += [
            _package(row[name], row.get(limit))
            for name, limit in (("most_chips", "one_more"), ("least_factor", "one_less"))
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


_VERDICTS = {
    "fits": "fits",
    "none exists": "no partition exists",
    "none found": "none was found, which is no proof",
}


def _package(attempt: Any, limit: Any) -> str:
    if attempt["verdict"] != "fits":
        return "none found"
    text = f"{attempt['chips']} x {attempt['sram_mib']:g} MiB, {attempt['factor']:.3g} times"
    return text + (" (not proven)" if limit and limit["verdict"] == "none found" else "")


def _title(case: Any) -> str:
    package = PACKAGE if case["package"] == "roomy" else case["package"]
    return f"{case['model']}, {package}, {case['routing']}"


def _long_lines(data: Any) -> list[str]:
    budget_s = data["context"]["budget_s"]
    lines = [
        f"Simulated periods of `-O2` and `-O3 --budget {budget_s:g}s`, first seed, where the two",
        "differ; percentages are above the best bound.",
        "",
        "| case | -O2, us | -O3, us | gain | found by |",
        "|---|---:|---:|---:|---|",
    ]
    for case in data["cases"]:
        pair = long_search(case)
        if pair is None or any(cell["simulated_s"] is None for cell in pair):
            continue
        bound_s = best_bound_s(case)
        row = [_title(case)]
        row += [f"{_us(simulated_s(c))} ({_percent(simulated_s(c) / bound_s)})" for c in pair]
        row.append(f"{100 * (1 - simulated_s(pair[1]) / simulated_s(pair[0])):.2f} %")
        finder = (pair[1].get("found_by") or "").partition("{")[0]
        lines.append(f"| {' | '.join([*row, f'`{finder}`' if finder else ''])} |")
    return lines


def _placement_lines(cells: Sequence[Any]) -> list[str]:
    lines = [
        "Cost `device-placement` without CPUs, see",
        "[placement problems](../how-to/partitioning-problems.md). *own* is the exact method of",
        "that cost; periods are in the unit of the files.",
        "",
        "| input | operators | devices | own, period | own, CPU s | strategies that equal it |",
        "|---|---:|---:|---:|---:|---|",
    ]
    free = [cell for cell in cells if has_period(cell) and cell["rule"] == "none"]
    for own in (cell for cell in free if not cell["strategy"]):
        others = [c for c in free if c["strategy"] and c["input"] == own["input"]]
        equal = [c["strategy"] for c in others if c["period"] <= own["period"] * (1 + EQUAL)]
        names = ", ".join(f"`{name}`" for name in equal)
        lines.append(
            f"| {own['input']} | {own['operators']} | {own['devices']} | {own['period']:.4f} | "
            f"{own['cpu_s']:.2f} | {len(equal)} of {len(others)}: {names} |"
        )
    return lines


def _reproduction(data: Any) -> list[str]:
    context = data["context"]
    versions = ", ".join(f"{name} {version}" for name, version in context["versions"].items())
    lines = [
        f"    {context['command']}",
        "",
        f"Seeds {', '.join(map(str, context['seeds']))}; {context['cpus']} cores,",
        f"{context['machine']}; Python {context['python']}, {versions}. All cells, also resident",
        "sets, are in `tools/bench/data/partitioning.json`; each ran in a process of its own,",
        f"{context['workers']} at a time, and {len(context['sources'])} versions of the code were",
        "measured.",
    ]
    if checked := [case for case in data["cases"] if compared(case)]:
        lines.append(f"The portfolio was compared with its members in {len(checked)} cases.")
    if context["note"]:
        lines += ["", context["note"]]
    return lines


def _mean(ratios: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan


def _us(seconds: float) -> str:
    return f"{1e6 * seconds:.2f}"


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):.2f} %"
