"""The data as a page of the documentation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, log
from textwrap import wrap
from typing import Any

from peer_cases.bars import CONTROL, ratios, value_s
from peer_cases.set_template import lines as set_lines

from mcm_compiler.text.units import count_text, percent_text, seconds_text

EQUAL = 1.0 + 1e-6
"""Periods whose quotient is nearer to 1 count as the same."""

MADE_VALID = "*"
"""Marks what is valid after repair only."""

WIDTH = 100
"""Characters of a line of prose."""

SET = """SET (Cai et al. 2023) schedules 16 built-in networks on tiled accelerators, and reads no
ONNX. So it is compared on its own template, 36 cores with 1 MiB and 1,024 multipliers, for batches
of 64 (`tests/data/targets/set36.toml`). The figure is cycles of an inference over those of
multipliers that are always busy. SET's is computed by its program, ours is simulated in the steady
state with a replica on each core. *64 alone* counts the two rounds of 36 inferences that a single
batch takes. *Chips busy* and *reads* are the same figure for the cores and for the shared memory
alone. Rows are by the options shown. By default (`-O2`), ResNet-50 takes 1.32, GoogLeNet 1.31
undivided, and VGG-19 1.09 in rounds of eight. Command: `python tools/bench/peers.py --set`."""

Data = Mapping[str, Any]


def page(data: Data) -> str:
    """docs/results/peers.md."""
    lines = [
        *_introduction(data),
        *_section("Overview", _overview(data)),
        *_section("By model", _by_model(data)),
        *_section("Where others are as good or better", _better(data)),
        *_section("What failed", _failures(data)),
        *_section("How each was set", _settings(data)),
        *_section("Reproduce", _reproduction(data)),
    ]
    if "set" in data:
        lines += _section(
            "SET on its own template", [*_paragraph(SET), "", *set_lines(data["set"])]
        )
    return "\n".join(lines) + "\n"


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return ["", f"## {title}", "", *lines]


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], texts: int = 1) -> list[str]:
    """A Markdown table whose first `texts` columns are text and whose others are numbers."""
    rule = "|" + "---|" * texts + "---:|" * (len(heads) - texts)
    return [f"| {' | '.join(heads)} |", rule, *(f"| {' | '.join(row)} |" for row in rows)]


def _paragraph(text: str) -> list[str]:
    """Lines of a paragraph."""
    return wrap(" ".join(text.split()), WIDTH, break_on_hyphens=False, break_long_words=False)


def _introduction(data: Data) -> list[str]:
    largest = max(one["ours"]["period_s"] / one["ours"]["bound_s"] - 1.0 for one in data["models"])
    return [
        "# Peers",
        "",
        *_paragraph(
            "What could you use instead? Programs that install from PyPI, on the same models and "
            f"priced by the same model. No program has a shorter period: ours are at most "
            f"{percent_text(largest)} above a proven lower bound (roofline), which no other "
            "program gives. Graph partitioners divide faster than our search, and some reach the "
            "same period on some models."
        ),
        "",
        *_paragraph(
            f"""
            Every program gets the graph of our own search, the model after `{data["passes"]}`, and
            is asked for as many parts as our partition for `{data["target"]}` uses chips, as one
            pipeline. The *period* is the busiest chip, link or host channel of one inference.
            Parts that depend on each other in a cycle are repaired by the fewest moves, or by cuts
            along an order that follows them. The shorter period counts and is marked
            `{MADE_VALID}`: it is partly ours, and may use more chips. A control with random parts
            shows what repair alone achieves. The best valid answer of all seeds counts.
            """
        ),
        "",
        *_paragraph(
            """
            *CPU* is the time of the division alone, of all seeds or sizes. *Equal* says whether one
            model per part, run in a chain in onnxruntime, is bit-identical to the whole on one
            random input. A model that no single chip holds has no period on one device.
            """
        ),
    ]


def _reproduction(data: Data) -> list[str]:
    context = data["context"]
    versions = ", ".join(f"{name} {version}" for name, version in context["versions"].items())
    cores = count_text(context["cpus"], "core")
    first, last = data["seeds"][0], data["seeds"][-1]
    return [
        f"    {data['command']}",
        "",
        *_paragraph(
            f"{versions}, Python {context['python']}; {cores}, {context['machine']}; "
            f"seeds {first} to {last}. {data['note']} Parts, moves, chips and processor time of "
            "each answer are in `tools/bench/data/peers.json`."
        ),
    ]


def _overview(data: Data) -> list[str]:
    heads = (
        "program",
        "verifies",
        "answered",
        "valid as given",
        "ahead of control",
        "mean",
        "best",
        "worst",
        "CPU, s",
        "equal",
    )
    ours = [model["ours"] for model in data["models"]]
    held = sum(model["compiled"]["holds"] for model in data["models"])
    rows = [
        (
            "mcm-compiler",
            "runs and structure, and a bound",
            f"{len(ours)} of {len(ours)}",
            str(len(ours)),
            str(_ahead(data, [model["ours"]["period_s"] for model in data["models"]])),
            "1",
            "1",
            "1",
            _span([one["cpu_s"] for one in ours]),
            f"{held} of {len(ours)}",
        )
    ]
    rows += [_program_row(data, name) for name in data["programs"]]
    whole = [model["compiled"] for model in data["models"]]
    return [
        *_paragraph(
            "Periods over ours; the mean is geometric, over models with an answer. *Ahead of "
            "control* counts models whose period is shorter than that of repaired random parts."
        ),
        "",
        *table(heads, rows, 2),
        "",
        *_paragraph(
            "A whole compile with verification takes "
            f"{_span([one['cpu_s'] for one in whole])} CPU-seconds."
        ),
    ]


def _program_row(data: Data, name: str) -> tuple[str, ...]:
    found = [row for _, row in _found(data, name)]
    values = ratios(data, name)
    periods = [value_s(model["rows"].get(name, {})) for model in data["models"]]
    chains = [row["chain"] for row in found if row["chain"] is not None]
    equal = sum(chain["equal"] for chain in chains)
    numbers = ["-"] * 3
    if values:
        mean = exp(sum(map(log, values)) / len(values))
        numbers = [f"{value:.2f}" for value in (mean, min(values), max(values))]
    return (
        name,
        data["programs"][name]["checks"].partition(":")[0],
        f"{len(values)} of {len(_asked(data, name))}",
        str(sum(row["period_s"] is not None for row in found)),
        "-" if name == CONTROL else str(_ahead(data, periods)),
        *numbers,
        _span([row["cpu_s"] for row in found]),
        f"{equal} of {len(chains)}" if chains else "-",
    )


def _ahead(data: Data, periods: Sequence[float | None]) -> int:
    """On how many models a period is shorter than what repair makes of parts drawn at random."""
    control = [value_s(model["rows"].get(CONTROL, {})) for model in data["models"]]
    return sum(
        own is not None and other is not None and own * EQUAL < other
        for own, other in zip(periods, control, strict=True)
    )


def _span(seconds: Sequence[float]) -> str:
    if not seconds:
        return "-"
    least, most = f"{min(seconds):.2g}", f"{max(seconds):.2g}"
    return least if least == most else f"{least} to {most}"


def _by_model(data: Data) -> list[str]:
    names = [name for name in data["programs"] if ratios(data, name)]
    rows: list[list[str]] = []
    for model in data["models"]:
        ours = model["ours"]
        cells = [_ratio_text(model, model["rows"].get(name, {})) for name in names]
        gap = percent_text(ours["period_s"] / ours["bound_s"] - 1.0)
        rows.append([model["model"], seconds_text(ours["period_s"]), gap, *cells])
    return [
        "Our period, its gap to the proven bound, and periods of others over ours.",
        "",
        *table(("model", "ours", "gap", *names), rows),
    ]


def _ratio_text(model: Data, row: Data) -> str:
    seconds = value_s(row)
    if seconds is None:
        return "-"
    mark = "" if row["period_s"] is not None else f" {MADE_VALID}"
    return f"{seconds / model['ours']['period_s']:.2f}{mark}"


def _asked(data: Data, name: str) -> list[tuple[Data, Data]]:
    """The models that a program was asked about, and its rows."""
    return [(model, model["rows"][name]) for model in data["models"] if name in model["rows"]]


def _found(data: Data, name: str) -> list[tuple[Data, Data]]:
    """Those that it had an answer to."""
    return [(model, row) for model, row in _asked(data, name) if row["status"] == "found"]


def _better(data: Data) -> list[str]:
    rows: list[list[str]] = []
    for name in data["programs"]:
        found = _found(data, name)
        good = [text for model, row in found if (text := _as_good(model, row))]
        quicker = sum(0.0 < row["cpu_s"] < model["ours"]["cpu_s"] for model, row in found)
        if name == CONTROL:
            quicker = 0
        if good or quicker:
            rows.append([name, ", ".join(good), count_text(quicker, "model") if quicker else ""])
    heads = ("program", "as good or better", "less CPU time for dividing")
    return [*table(heads, rows, 3), "", *_copies(data)]


def _as_good(model: Data, row: Data) -> str:
    """How a period is as short as ours or shorter; empty where it is longer."""
    seconds, ours_s = value_s(row), model["ours"]["period_s"]
    if seconds is None or seconds > ours_s * EQUAL:
        return ""
    how = "as given" if row["period_s"] is not None else "after repair"
    if seconds * EQUAL >= ours_s:
        return f"{model['model']} (same period, {how})"
    return f"{model['model']} ({percent_text(1.0 - seconds / ours_s)} shorter, {how})"


def _copies(data: Data) -> list[str]:
    """Where copies of the whole on each chip are ahead of one pipeline."""
    found: list[str] = []
    for model in data["models"]:
        alone = model["rows"].get("onnxruntime", {}).get("period_s")
        if alone is not None and alone / model["chips"] < model["ours"]["period_s"]:
            share = model["ours"]["period_s"] * model["chips"] / alone
            found.append(f"{model['model']} {share:.2f}")
    if not found:
        return []
    return _paragraph(
        "Where one chip holds the model, `mcmc compile` takes "
        f"[replicas](../how-to/parallelize.md). Throughput over that of the pipeline: "
        f"{', '.join(found)}."
    )


def _failures(data: Data) -> list[str]:
    rows: list[list[str]] = []
    for name in data["programs"]:
        quotes: dict[str, list[str]] = {}
        asked = _asked(data, name)
        for model, row in asked:
            if row["status"] != "found":
                quotes.setdefault(row["quote"], []).append(model["model"])
        for quote, models in quotes.items():
            where = "all" if len(models) == len(asked) else ", ".join(models)
            rows.append([name, where, f"`{quote.replace('|', '/').replace('`', chr(39))}`"])
    if not rows:
        return ["Nothing."]
    return [
        "Their error messages, shortened.",
        "",
        *table(("program", "models", "message"), rows, 3),
    ]


def _settings(data: Data) -> list[str]:
    rows: list[list[str]] = []
    for name, program in data["programs"].items():
        asked = (program["install"] or {}).get("requirements", ())
        pip = f"`pip install {' '.join(asked)}`" if asked else ""
        version = f"{program['distribution']} {program['version'] or 'not installed'}"
        how = ". ".join(part[0].upper() + part[1:] for part in program["how"].split("; "))
        rows.append([name, version, how, program["checks"], pip])
    return table(("program", "version", "setting", "verifies", "installed by"), rows, 5)
