"""The sections of the page of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mcm_study.classical import Exact
from mcm_study.curves import NOTHING_YET
from mcm_study.summary import at_count
from mcm_study.tables import bars_table, in_terms, number, percent, seconds, table
from mcm_study.thresholds import TABLE_2, TABLE_3

Data = dict[str, Any]

CLAIMS = "learned-search-claims.csv"
_HEAD = """\
# Learned search: the experiments

Does reinforcement learning find better partitions than classical search? Xie et al. 2022 (MCM)
report that it beats random search and annealing. That holds here too. Dynamic programming (`dp`)
and the portfolio of `-O2`, which the paper does not compare with, are as good in a fraction of
the time. With the default recipe the gain is the sampler's: with updates switched off it does
equally well. As published, without prior and windows, updates add 16 % in 1,000 samples.

Conditions: `mcm36`, `--cost-model roofline` (the analytic model) or the simulator, relay rule; no
recipe and no checkpoint was chosen by the test graphs. Improvement is throughput over the greedy
heuristic's, in geometric means, where a search without a valid partition counts as {nothing}.
Figures are means and deviations over seeds. [Learned search](../explanation/learned-search.md)
explains recipes and sampler.
"""
_SHOWN = (
    *("RL without prior and windows over ", "RL over Random, 1,000", "RL over `dp`, 1,000"),
    "RL over the same without updates, 1,000",
    "fine-tuned against scratch without prior and windows",
    "zero-shot without prior and windows over Random",
    "RL from scratch, share of the exact optimum, all graphs",
)
"""How claims begin that the page shows next to those that do not hold; all are in the data."""

_METHODS = {
    "random": "uniform probabilities and MCM's solver in SAMPLE mode",
    "sa": "annealing on probabilities (MCM, section 5.1)",
    "dp": "exact cuts of a few topological orders; nothing learned",
    "rl-no-prior": "RL from random weights, as MCM describes it",
    "rl": "the same with a prior and without windows that cannot improve",
    "zero-shot": "the shipped policy, sampled without updates",
    "fine-tuned": "the shipped policy, learning with recipe `default`",
    "everything": "the best 80 of zero-shot, then RL around it",
}
_CHANGES = (
    *("unchanged", "nothing learned", "all windows", "without prior", "no clones"),
    *("engine, SAMPLE, gradient on y'", "no relays: strict rule"),
)


def head(data: dict[str, Data]) -> str:
    """What was asked, the answer, and the claims that the page shows."""
    parts = [_HEAD.format(nothing=NOTHING_YET)]
    parts += [line for name, found in data.items() if (line := _unfinished(name, found))]
    rows = [row for found in data.values() for row in found["bars"]]
    bars = [row for row in rows if row["bar"] != "none"]
    shown = [r for r in rows if r["holds"] is not True or r["claim"].startswith(_SHOWN)]
    shown = [row for row in shown if row["bar"] != "none" or row["claim"].startswith(_SHOWN)]
    if rows:
        holding = sum(row["holds"] is True for row in bars)
        parts.append(
            f"## Published claims\n\nOf {len(bars)} claims with a bar {holding} hold. The table "
            "has the published ones, the controls, and all that do not hold; "
            f"[all claims](data/{CLAIMS}) are a data file.\n\n" + bars_table(shown)
        )
    return "\n".join(parts)


def test_graphs(data: Data) -> str:
    """Fig. 5 and Table 2."""
    summary = data["panels"]["test graphs"]
    methods = [name for name in _METHODS if name in summary["methods"]]
    rows = [
        [
            f"`{name}`",
            _METHODS[name],
            *(number(at_count(summary["methods"][name], count)) for count in (20, 200, 1000)),
            *(
                _lead(summary["methods"][name]["controls"][other].get("1000"))
                for other in ("dp", "no updates")
            ),
            seconds(summary["methods"][name]["cpu_s_1000"]),
        ]
        for name in methods
    ]
    columns = (
        *("method", "what it is", "@20", "@200", "@1000", "over `dp`", "over no updates", "CPU s"),
    )
    return "\n".join(
        [
            "## 16 test graphs (Fig. 5, Table 2)\n",
            _unsolved(summary),
            "![Improvement against samples: dp reaches its end after 6 partitions, RL after 1,000]"
            "(images/mcm_test_graphs.svg)\n",
            "Improvement after 20, 200 and 1,000 samples, and the lead after 1,000.\n",
            table(columns, rows, text_columns=2),
            _portfolio(summary),
            f"`{Exact.strategy}` with {Exact.effort_s:g} deterministic seconds gives bounds and "
            "optima.\n",
            _thresholds(data["thresholds"].get("place", []), TABLE_2),
        ]
    )


def bert(data: Data) -> str:
    """Fig. 6 and Table 3."""
    parts = [
        "## BERT-large (Fig. 6, Table 3)\n",
        "The embedding fills 59.6 of a chip's 64 MiB, so that random partitions do not fit "
        "`mcm36`; with 1 GiB per chip all of them do.\n",
    ]
    rows: list[list[str]] = []
    names = ("random", "sa", "dp", "rl-no-prior", "rl", "zero-shot", "fine-tuned")
    for title, summary in data["panels"].items():
        found = [summary["methods"].get(name) for name in names]
        rows.append([in_terms(title), *(number(at_count(m, 800)) if m else "-" for m in found)])
    parts.append(table(("improvement @800", *(f"`{name}`" for name in names)), rows))
    for title, found in data["thresholds"].items():
        if "1 GiB" in title and "fast" not in title:
            parts.append(_thresholds(found, TABLE_3))
    return "\n".join(parts)


def without_solver(data: Data) -> str:
    """Proposals taken as they are."""
    samples = sum(row["samples"] for row in data["rows"])
    valid = sum(row["valid"] for row in data["rows"])
    return (
        "## Without the solver\n\nThe policy's proposals as they are earn nothing where they break "
        f"a rule, so there is nothing to learn from: {valid} of {samples:,} are valid on "
        f"{len({row['graph'] for row in data['rows']})} graphs.\n"
    )


def ablations(data: Data) -> str:
    """One change at a time."""
    summary = data["panels"].get("changes to `default`", {"methods": {}})
    rows = [
        [
            f"`{name}`",
            *(number(at_count(method, count)) for count in (20, 200)),
            number(at_count(method, method["samples"])),
            percent(method.get("share_of_bound", {}).get(str(method["samples"]))),
        ]
        for name in _CHANGES
        if (method := summary["methods"].get(name))
    ]
    end = max((m["samples"] for m in summary["methods"].values()), default=0)
    return (
        "## Ablations\n\nOne change at a time to recipe `default`, five validation graphs. `bound` "
        "is the share of the proven bound of the relay rule with clones.\n\n"
        + table(("change", "@20", "@200", f"@{end}", "bound"), rows)
    )


def reproduce(data: dict[str, Data]) -> str:
    """Commands, data and versions."""
    commands = "\n".join(f"    {found['command']}" for found in data.values())
    code = {digest for found in data.values() for digest in found["code"]}
    versions = {f"{k} {v}" for found in data.values() for k, v in found["versions"].items()}
    files = ", ".join(f"`{name}.json`" for name in data)
    return (
        f"## Reproduce\n\n{commands}\n\nThey write {files} in `tools/reproduce/data`, with curves, "
        "leads, thresholds and processor time of all methods and recipes, and this page. Versions: "
        f"{', '.join(sorted(versions))}; cells of {len(code)} versions of the code.\n"
    )


def _portfolio(summary: Data) -> str:
    classical = summary["classical_mean"]
    if classical is None:
        return ""
    against = summary["equal_time"]["against_portfolio"]
    slower = " ".join(
        f"At its processor time `{name}` is slower than the portfolio in {found['below']} of "
        f"{found['below'] + found['equal'] + found['above']} runs, and faster in {found['above']}."
        for name, found in against.items()
        if name in {"rl", "fine-tuned", "everything"}
    )
    text = (
        f"The portfolio reaches {classical['improvement']:.3f} in {seconds(classical['cpu_s'])} "
        f"processor seconds per graph; no partition exceeds {classical['bound']:.3f} (proven, "
        "analytic model)."
    )
    return f"{text} {slower}".rstrip() + "\n"


def _lead(pair: Sequence[float] | None) -> str:
    return "-" if pair is None else f"{pair[0]:+.1f} ± {pair[1]:.1f} %"


def _thresholds(found: Sequence[dict[str, Any]], paper: Mapping[str, Sequence[int | None]]) -> str:
    """Samples to each level, by method, next to the paper's."""
    if not found:
        return ""
    names = ("random", "sa", "rl-no-prior", "zero-shot-no-prior", "fine-tuned-no-prior", "rl", "dp")
    rows = [
        [f"`{name}`", *(_reached(level["methods"][name]) for level in found)]
        for name in names
        if name in found[0]["methods"]
    ]
    text = "; ".join(
        f"{name} {', '.join('never' if n is None else f'{n:,}' for n in counts)}"
        for name, counts in paper.items()
    )
    columns = ("samples to", *(f"{level['level']:.4g}x" for level in found))
    return f"{table(columns, rows)}\nIn the paper, for its three levels: {text}.\n"


def _reached(cell: dict[str, Any]) -> str:
    if cell["samples"] is None:
        return "never"
    mean, deviation = cell["samples"]
    some = "" if cell["reached"] == cell["seeds"] else f" ({cell['reached']} of {cell['seeds']})"
    return f"{mean:,.0f} ± {deviation:,.0f}{some}"


def _unsolved(summary: Data) -> str:
    if not summary["left_out"]:
        return ""
    left_out = ", ".join(f"`{graph}`" for graph in summary["left_out"])
    rest = len(summary["graphs"]) - len(summary["left_out"])
    return (
        f"Means are over {rest} of {len(summary['graphs'])} graphs, without {left_out}, where "
        "Random or SA finds nothing in 1,000 samples. Leaving it out favours these two.\n"
    )


def _unfinished(name: str, data: Data) -> str:
    cells = data["cells"]
    if cells["measured"] == cells["all"]:
        return ""
    return f"**{name}:** {cells['measured']} of {cells['all']} cells are measured.\n"
