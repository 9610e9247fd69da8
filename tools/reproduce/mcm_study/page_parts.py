"""Parts that sections of the page of results share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcm_study.curves import BASELINES
from mcm_study.methods import CONTROL, DP
from mcm_study.summary import at_count
from mcm_study.tables import number, percent, seconds, table

Data = dict[str, Any]


def improvements_part(summary: Data, counts: Sequence[int]) -> str:
    """Curves at some numbers of samples, and what the classical portfolio comes to."""
    rows = [
        [
            f"`{name}`",
            *(number(at_count(method, count)) for count in counts),
            number(method["first_area"]),
            f"{method['evaluated']:,.4g}" if method["evaluated"] < 100 else "all",
            f"{100 * method['valid_share']:.0f} %",
            str(len(method["seeds"])),
        ]
        for name, method in summary["methods"].items()
    ]
    classical = summary["classical_mean"]
    text = "Geometric mean of the improvement after so many samples; `area` is the mean over the "
    text += "first 200, `evaluated` how many partitions it takes where it ends by itself, `valid` "
    text += "the share of evaluated partitions that run.\n\n"
    columns = ("method", *(f"@{count}" for count in counts), "area", "evaluated", "valid", "seeds")
    text += table(columns, rows)
    if classical is not None:
        text += (
            f"\nThe classical portfolio comes to {classical['improvement']:.3f} in "
            f"{seconds(classical['cpu_s'])} processor seconds per graph, and no partition to more "
            f"than {classical['bound']:.3f}.\n"
        )
    return text


def controls_part(summary: Data, marks: Sequence[str]) -> str:
    """How far each method that learns leads `dp`, and itself without updates."""
    rows = [
        [
            f"`{name}`",
            *(
                _lead(method["controls"][other].get(mark))
                for other in ("dp", "no updates")
                for mark in marks
            ),
        ]
        for name, method in summary["methods"].items()
        if name not in (*BASELINES, DP) and not name.endswith(CONTROL)
    ]
    columns = ("method", *(f"over {other} @{m}" for other in ("dp", "no updates") for m in marks))
    text = (
        "What learning adds, seed by seed: lead over `dp`, and over the same machinery (sampler, "
    )
    text += (
        "prior, windows, orders, starting anew, number of samples and seeds) without updates.\n\n"
    )
    return text + table(columns, rows)


def leads_part(summary: Data, marks: Sequence[str]) -> str:
    """How far each method leads Random and SA."""
    rows = [
        [
            f"`{name}`",
            *(_lead(method["leads"][other][mark]) for other in ("random", "sa") for mark in marks),
        ]
        for name, method in summary["methods"].items()
        if name not in BASELINES
    ]
    columns = ("method", *(f"over {other} @{m}" for other in ("Random", "SA") for m in marks))
    text = "Lead at equal samples; over the better of `sa` and `sa-short` where both were run.\n\n"
    return text + table(columns, rows)


def _lead(pair: Sequence[float] | None) -> str:
    return "-" if pair is None else f"{pair[0]:+.1f} ± {pair[1]:.1f} %"


def all_graphs_part(summary: Data, marks: Sequence[str]) -> str:
    """Figures over all graphs, also those that means leave out."""
    rows = [
        [
            f"`{name}`",
            *(percent(method.get("share_of_bound", {}).get(mark)) for mark in marks),
            *(percent(method.get("share_of_known", {}).get(mark)) for mark in marks),
            *(number(method.get("greedy_kept", {}).get(mark)) for mark in marks),
        ]
        for name, method in summary["methods"].items()
    ]
    columns = (
        "method",
        *(f"bound @{m}" for m in marks),
        *(f"known @{m}" for m in marks),
        *(f"kept @{m}" for m in marks),
    )
    return table(columns, rows)


def thresholds_part(title: str, found: Sequence[dict[str, Any]]) -> str:
    """Samples to each level, by method."""
    if not found:
        return ""
    rows = [
        [f"`{name}`", *(_reached(level["methods"][name]) for level in found)]
        for name in found[0]["methods"]
    ]
    return f"{title}\n\n" + table(("method", *(f"{level['level']:.4g}x" for level in found)), rows)


def _reached(cell: dict[str, Any]) -> str:
    if cell["samples"] is None:
        return "never"
    mean, deviation = cell["samples"]
    some = "" if cell["reached"] == cell["seeds"] else f" ({cell['reached']} of {cell['seeds']})"
    return f"{mean:,.0f} ± {deviation:,.0f}{some}"


def equal_time_part(summary: Data, level: str = "###") -> str:
    """Improvement at equal processor time, and the portfolio at its own."""
    found = summary["equal_time"]
    against = found["against_portfolio"]
    rows = [
        [
            f"`{name}`",
            *(number(value) for value in values),
            seconds(summary["methods"][name]["cpu_s_1000"]),
            *_against(against.get(name)),
        ]
        for name, values in found["improvement"].items()
    ]
    columns = (
        "method",
        *(f"{s:g} s" for s in found["seconds"]),
        "CPU s of 1,000 samples or all",
        "of the portfolio's throughput",
        "slower / as fast / faster",
    )
    return (
        f"{level} At equal processor time\n\n{_short_of(against)}"
        "Improvement after so many processor seconds per graph. The last two columns compare "
        "with the portfolio at the time that it took itself on each graph, over all graphs "
        "and seeds.\n\n" + table(columns, rows)
    )


def _short_of(against: dict[str, Any]) -> str:
    """Where learned search falls short of the portfolio, in words."""
    told = [
        f"`{name}` is slower than the portfolio in {found['below']} of "
        f"{found['below'] + found['equal'] + found['above']} runs, and faster in {found['above']}"
        for name, found in against.items()
        if name in {"rl", "rl-no-prior", "zero-shot", "fine-tuned", "everything"}
    ]
    return f"At the portfolio's own processor time {'; '.join(told)}.\n\n" if told else ""


def _against(found: dict[str, Any] | None) -> list[str]:
    if found is None:
        return ["-", "-"]
    return [percent(found["share"]), f"{found['below']} / {found['equal']} / {found['above']}"]


def unsolved_part(summary: Data) -> str:
    """Where which method found nothing, and what that means for the means."""
    if not summary["unsolved"]:
        return ""
    lines = [
        f"- `{graph}`: {', '.join(f'`{name}`' for name in methods)}"
        for graph, methods in summary["unsolved"].items()
    ]
    text = "Nothing valid was found with at least one seed on\n\n" + "\n".join(lines) + "\n"
    if summary["left_out"]:
        text += (
            f"\nMeans are over the other {len(summary['graphs']) - len(summary['left_out'])} of "
            f"{len(summary['graphs'])} graphs, without "
            + ", ".join(f"`{graph}`" for graph in summary["left_out"])
            + ", where Random or SA finds nothing among 1,000 samples, so that there is nothing to "
            "compare with. Leaving them out favours the two.\n"
        )
    return text


def by_graph_part(summary: Data, methods: Sequence[str]) -> str:
    """What each method ends with on each graph."""
    names = [name for name in methods if name in summary["methods"]]
    rows: list[list[str]] = []
    for graph in summary["graphs"]:
        found = [summary["methods"][name]["by_graph"].get(graph) for name in names]
        classical = summary["classical"].get(graph)
        tail = ["-"] * 4
        if classical is not None:
            tail = [f"{classical[name]:.3f}" for name in ("improvement", "best_known", "bound")]
            tail.append(seconds(classical["cpu_s"]))
        nodes = str(classical["nodes"]) if classical else "-"
        rows.append([f"`{graph}`", nodes, *map(number, found), *tail])
    text = "Improvement after all samples of each method.\n\n"
    columns = (
        "graph",
        "nodes",
        *(f"`{name}`" for name in names),
        "portfolio",
        "best known",
        "bound",
        "its CPU s",
    )
    return text + table(columns, rows)


def unfinished_part(name: str, data: Data) -> str:
    """What is missing of an experiment; empty where nothing is."""
    cells = data["cells"]
    notes: list[str] = []
    if cells["measured"] < cells["all"]:
        notes.append(f"{cells['measured']} of {cells['all']} cells are measured")
    if len(data["code"]) > 1:
        notes.append(f"cells come from {len(data['code'])} versions of the code")
    return f"**{name}:** {'; '.join(notes)}.\n" if notes else ""


def provenance_part(data: Data) -> str:
    """Policies, versions and code."""
    versions = ", ".join(f"{name} {version}" for name, version in data["versions"].items())
    policies = "; ".join(
        f"`{name}`: {card['samples']:,} samples on `{card['data_set']}`, `{card['target']}`, seed "
        f"{card['seed']}"
        for name, card in data["policies"].items()
    )
    code = ", ".join(f"`{digest}`" for digest in data["code"])
    policies = f"Policies: {policies}. " if policies else ""
    return f"{policies}Versions: {versions}. Digest of the code: {code}.\n"
