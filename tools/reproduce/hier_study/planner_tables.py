"""The section on planners of `docs/results/hierarchical-planner.md`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import Any

from hier_study.page import table
from hier_study.paper_graphs import GRAPHS

OURS = "hierarchical-groups"
"""Whose CPU seconds others get."""

Row = dict[str, Any]

_LEARNING = "local_search;logits{parts=8,start_weight=5,learning_rate=%s}"

AFTER_SEARCH = tuple(
    f'portfolio{{robust=false,members="{_LEARNING % rate}"}}' for rate in ("0.1", "0")
)
"""Local search with half of the evaluations, and learning from what it found; then the same without
updates."""

_WORDS = {
    "pretrained{policy=none,evaluations=1000000000}": "hill climbing over the groups",
    AFTER_SEARCH[0]: "half `local_search`, half `logits{parts=8}` from there",
    AFTER_SEARCH[1]: "the same, without updates",
}
"""Methods whose texts say little."""

_EQUAL_EVALUATIONS = (
    "method",
    "seeds",
    "CPU-s",
    "best s",
    "over expert",
    "over one GPU",
    "last samples over one GPU",
    "entropy of devices",
    "of groups",
    "used groups",
    "busiest device",
)
_EQUAL_CPU = ("method", "seeds", "CPU-s", "evaluations", "best s", "over expert")


def section(rows: Sequence[Row]) -> str:
    """Tables of methods at equal evaluations and at equal CPU seconds, graph by graph."""
    done = [row for row in rows if "failed" not in row]
    parts: list[str] = []
    for graph in GRAPHS:
        of_graph = [row for row in done if row["graph"] == graph.name]
        if not of_graph:
            continue
        parts += [_equal_evaluations(of_graph), _equal_cpu(of_graph), _curves(of_graph)]
    failed = [
        f"- `{row['method']}` on {row['graph']}, seed {row['seed']}: {row['failed']}"
        for row in rows
        if "failed" in row
    ]
    if failed:
        parts.append("Without an answer:\n\n" + "\n".join(failed))
    return "\n\n".join(part for part in parts if part)


def _named(method: str) -> str:
    return _WORDS.get(method, f"`{method}`")


def _title(rows: Sequence[Row]) -> str:
    one = rows[0]
    unfit = "" if one["one_gpu_fits"] else ", which it does not fit"
    return (
        f"**{one['graph']}** ({one['ops']:,} ops, `{one['box']}`; expert {one['expert_s']:.3f} s, "
        f"one GPU {one['one_gpu_s']:.3f} s{unfit})"
    )


def _by_method(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["method"], []).append(row)
    return found


def _equal_evaluations(rows: Sequence[Row]) -> str:
    """One table for each number of evaluations that several methods have."""
    parts: list[str] = []
    for evaluations in sorted({row["evaluations"] for row in rows}):
        methods = _by_method(row for row in rows if row["evaluations"] == evaluations)
        if len(methods) < 2:
            continue
        body = [[_named(method), *_cells(cells)] for method, cells in methods.items()]
        text = table(_EQUAL_EVALUATIONS, body)
        parts.append(f"{_title(rows)}, {evaluations:,} evaluations each:\n\n{text}")
    return "\n\n".join(parts)


def _cells(rows: Sequence[Row]) -> list[str]:
    one = rows[0]
    learns = "last_mean" in one
    text = [
        str(len(rows)),
        f"{_mean(rows, 'cpu_s'):.1f}",
        _seconds(rows, "best_s") + ("" if all(row["best_fits"] for row in rows) else ", OOM"),
        f"{_ratio(rows, 'best_s', 'expert_s'):.3f}",
        f"{_ratio(rows, 'best_s', 'one_gpu_s'):.3f}",
    ]
    if not learns:
        return [*text, "-", "-", "-", "-", f"{_mean(rows, 'busiest_share'):.0%}"]
    grouped = f"{_mean(rows, 'used_groups'):.0f} of {one['groups']:.0f}"
    return [
        *text,
        f"{_ratio(rows, 'last_mean', 'one_gpu_s'):.2f}",
        f"{_mean(rows, 'device_entropy'):.2f} of {one['most_device_entropy']:.2f}",
        f"{_mean(rows, 'group_entropy'):.3f}" if one["method"].split("{")[0] == "hierarchical"
        else "given",
        grouped,
        f"{_mean(rows, 'busiest_share'):.0%}",
    ]  # fmt: skip


def _equal_cpu(rows: Sequence[Row]) -> str:
    """What each method had by the CPU seconds that ours took, seed by seed."""
    least = min((row["evaluations"] for row in rows if row["method"] == OURS), default=None)
    spent = {
        row["seed"]: row["cpu_s"]
        for row in rows
        if row["method"] == OURS and row["evaluations"] == least
    }
    body: list[list[str]] = []
    for method, cells in _by_method(row for row in rows if row["seed"] in spent).items():
        read: list[Row] = []
        for seed, seconds in spent.items():
            enough = [r for r in cells if r["seed"] == seed and r["cpu_s"] >= 0.8 * seconds]
            if enough:
                nearest = min(enough, key=lambda row: row["evaluations"])
                found = _by_then(nearest, seconds)
                read += [found] if found else []
        if read:
            body.append(
                [
                    _named(method),
                    str(len(read)),
                    f"{_mean(read, 'cpu_s'):.1f}",
                    f"{_mean(read, 'evaluations'):,.0f}",
                    _seconds(read, "best_s"),
                    f"{_ratio(read, 'best_s', 'expert_s'):.3f}",
                ]
            )
    if len(body) < 2:
        return ""
    return f"At the CPU seconds of `{OURS}`:\n\n{table(_EQUAL_CPU, body)}"


def _by_then(row: Row, seconds: float) -> Row | None:
    """The best that a cell had after so many CPU seconds, with 2 % of slack."""
    if row["cpu_s"] <= 1.02 * seconds:
        return row
    fell = [point for point in row["fell"] if point[1] <= seconds]
    if not fell:
        return None
    # Between two falls evaluations go on as fast as they do on the whole.
    share = seconds / row["cpu_s"]
    return row | {
        "cpu_s": seconds,
        "evaluations": round(row["evaluations"] * share),
        "best_s": fell[-1][2],
    }


def _curves(rows: Sequence[Row]) -> str:
    """Mean time of samples over one GPU, along the updates of learners."""
    cells = [row for row in rows if len(row.get("curve", ())) >= 4 and row["seed"] == 0]
    cells = [row for row in cells if row["updates"] <= 1000]
    if not cells:
        return ""
    shares = (0.05, 0.25, 0.5, 0.75, 1.0)
    body: list[list[str]] = []
    for row in cells:
        points = [row["curve"][max(0, round(share * len(row["curve"])) - 1)] for share in shares]
        ratios = [f"{value / row['one_gpu_s']:.2f}" for _, value in points]
        body.append([f"`{row['method']}`, {row['updates']:.0f} updates", *ratios])
    header = ("samples over one GPU, seed 0", *(f"after {share:.0%}" for share in shares))
    return (
        f"How samples change, each a mean over a twentieth of the updates:\n\n{table(header, body)}"
    )


def _mean(rows: Sequence[Row], name: str) -> float:
    return fmean(float(row[name]) for row in rows)


def _ratio(rows: Sequence[Row], name: str, reference: str) -> float:
    return fmean(row[name] / row[reference] for row in rows)


def _seconds(rows: Sequence[Row], name: str) -> str:
    values = sorted(row[name] for row in rows)
    show: Callable[[float], str] = "{:.4f}".format
    return " to ".join(dict.fromkeys(map(show, (values[0], values[-1]))))
