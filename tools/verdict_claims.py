"""Whether every surface says what the verdict says, and whether a higher level contradicts it.

    python tools/verdict_claims.py            ten models on four families, minutes
    python tools/verdict_claims.py --check    whether the stored table is of all of them

Each model is compiled, or placed, twice: at one level and at the next. The numbers and claims of
each surface are parsed from its text and compared with the figures of the folder; the claim about
the optimum is then compared with what the higher level reached. The table is
`tools/data/verdict_claims.json`.
"""

from __future__ import annotations

import argparse
import contextlib
import html
import io
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from mcm_compiler.api import compile_model
from mcm_compiler.ci.batch import CompileOutcome
from mcm_compiler.ci.junit import compile_cases, junit_xml, sarif_log
from mcm_compiler.cli.many_models import outcome_line
from mcm_compiler.cli.show import show_verdict
from mcm_compiler.difference.compared import difference, read_side
from mcm_compiler.difference.text import difference_view
from mcm_compiler.options import CompileOptions
from mcm_compiler.page.folder_page import written_folder_page
from mcm_compiler.placed.folder_reading import open_placement
from mcm_compiler.placed.place_options import PlaceOptions
from mcm_compiler.placed.placement_report import device_rows, placed_headline, step_rows, times_of
from mcm_compiler.placed.placing import place_model
from mcm_compiler.project.cell_record import CellFigures
from mcm_compiler.project.summary import FIGURES, figure_texts
from mcm_compiler.report.markdown import render_markdown
from mcm_compiler.report.terminal import report_text
from mcm_compiler.text.styled import plain_lines

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "tools" / "data" / "verdict_claims.json"

MODELS = (
    "zoo:plain-cnn{image_size=16,stages=1,blocks=1,width=16}",
    "zoo:plain-cnn{image_size=32}",
    "zoo:residual-cnn{image_size=32}",
    "zoo:branched-cnn{image_size=32}",
    "zoo:dense-cnn{image_size=32}",
    "zoo:separable-cnn{image_size=32}",
    "zoo:unet-cnn{image_size=32}",
    "zoo:stacked-rnn",
    "zoo:bert-tiny",
    "zoo:gpt2-tiny",
)
TARGETS = {"ring": "mcm4", "mesh": "acme-mesh16", "fabric": "fabric-20", "host": "box-2gpu"}
LEVELS = (0, 1)
EVALUATIONS = (20, 2000)

_SLACK = 1e-9
_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_SECONDS = r"([\d.]+(?:e-?\d+)?) (s|ms|us|ns)"
_CLAIMS: Mapping[str, re.Pattern[str]] = {
    "rate": re.compile(r"([\d,.]+) inferences/s"),
    "latency": re.compile(rf"latency {_SECONDS} \(one inference, empty package\)"),
    "gap": re.compile(
        r"(?:at most|less than) ([\d.]+) % above the optimal ([a-z ]+) \(proven under the "
    ),
    "optimal": re.compile(r"(?<!the )optimal ([a-z ]+) \(proven under the "),
    "stored": re.compile(r"chips store ([A-Z0-9]+ as [\d.]+ bits)"),
    "verified": re.compile(r"(bit-identical to the source|within tolerance of the source)"),
    "simulated": re.compile(r"(no hardware measured)"),
}
"""Claims that a surface can make, as its readers see them."""

_STEP = {
    "step time": re.compile(rf"step time(?: \|)? {_SECONDS}"),
    "period": re.compile(rf"period {_SECONDS}"),
    "latency": re.compile(rf"latency {_SECONDS}"),
}
_STEP_RATE = re.compile(r"([\d,.]+) steps/s|steps per second ([\d,.]+)/s")
"""What surfaces say of a placed step as it is delivered."""

_UNSCOPED = re.compile(
    r"no (?:placement|partition|number)\b[^.;]*(?:faster|beats?)|of the optimum|equal to the bit"
    r"|\boptimum\b|(?<!the )\boptimal\b(?! [a-z ]+ \((?:proven|stated) under )"
)
"""Claims about the optimum, or about equality, without model and status."""

WHOLE = frozenset({"terminal", "ascii", "markdown", "page", "junit", "sarif", "json"})
"""Surfaces that show all lines; the others show figures of them."""


def surfaces(folder: Path) -> dict[str, str]:
    """The text of each surface of an output folder, without markup, on one line."""
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    outcome = CompileOutcome("m", folder, report, None, None, (), 1.0)
    side = read_side(folder)
    page = written_folder_page(folder).decode("utf-8")
    figures = figure_texts(CellFigures.of_report(report), None)
    xml = ElementTree.fromstring(junit_xml([("t", "t", compile_cases([outcome]))]))  # noqa: S314 - made just now
    texts = {
        "terminal": report_text(report),
        "ascii": report_text(report, ascii_only=True),
        "markdown": re.sub(r"\\(.)|\*\*", r"\1", render_markdown(report)),
        "page": _visible(page),
        "json": json.dumps(report["verdict"], ensure_ascii=False),
        "junit": "\n".join(xml.itertext()),
        "sarif": json.dumps(sarif_log([], "1", {"m": report["verdict"]})),
        "line of many": outcome_line(outcome, 1),
        "build table": "; ".join(map(" ".join, zip(FIGURES, figures, strict=True))),
        "diff": "\n".join(plain_lines(difference_view(difference(side, side), 100), 1000)),
    }
    return {name: " ".join(text.split()) for name, text in texts.items()}


def placed_surfaces(folder: Path) -> dict[str, str]:
    """The text of each surface of a folder of `mcmc place`, as `surfaces`."""
    opened = open_placement(folder)
    terminal = io.StringIO()
    with contextlib.redirect_stdout(terminal):
        schedule = opened.schedule
        times = None if schedule is None else times_of(schedule)
        show_verdict(
            placed_headline(opened.record, times),
            [step_rows(opened.record), device_rows(opened.record)],
        )
    side = read_side(folder)
    texts = {
        "terminal": terminal.getvalue(),
        "markdown": (folder / "report.md").read_text(encoding="utf-8"),
        "page": _visible(written_folder_page(folder).decode("utf-8")),
        "diff": "\n".join(plain_lines(difference_view(difference(side, side), 100), 1000)),
    }
    return {name: " ".join(text.split()) for name, text in texts.items()}


def placed_faults_of(folder: Path) -> Iterator[str]:
    """As `faults_of`, for a folder of `mcmc place`: figures are those of the step delivered."""
    step = json.loads((folder / "placement.json").read_text(encoding="utf-8"))["step"]
    path = folder / "schedule.json"
    schedule = json.loads(path.read_text(encoding="utf-8")) if path.exists() else step
    seconds, share = schedule["seconds"], None if step["gap"] is None else step["gap"]
    if share is not None and abs(step["seconds"] / step["bound_s"] - 1 - share) > _SLACK:
        yield f"placement.json has a gap of {share}"
    for name, text in placed_surfaces(folder).items():
        found = {claim: pattern.search(text) for claim, pattern in _CLAIMS.items()}
        if name != "diff" and not found["simulated"]:
            yield f"{name} lacks the simulated"
        if share is not None and not (found["gap"] or found["optimal"]):
            yield f"{name} lacks the optimality"
        times = {label: pattern.findall(text) for label, pattern in _STEP.items()}
        rates = [first or second for first, second in _STEP_RATE.findall(text)]
        if not times["step time"] or not rates:
            yield f"{name} lacks the step time"
        for label, shown in times.items():
            for number, unit in shown:
                if abs(float(number) * _UNITS[unit] - seconds) > 0.006 * seconds:
                    yield f"{name} has a {label} of {number} {unit}"
        yield from (f"{name} has {rate} steps/s" for rate in rates if not _near(rate, 1 / seconds))
        yield from (f"{name}: {fault}" for fault in _gap_faults(text, found, share))
        if (claim := _UNSCOPED.search(text)) is not None:
            yield f"{name} claims without a scope: {text[max(claim.start() - 30, 0) :][:90]}"


def _visible(page: str) -> str:
    """The text of a page without its script, style and data."""
    body = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]*>", " ", body))


def faults_of(folder: Path) -> Iterator[str]:
    """Where a surface disagrees with the figures of a folder, or claims more than they do."""
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    share = _gap(report)
    for name, text in surfaces(folder).items():
        found = {claim: pattern.search(text) for claim, pattern in _CLAIMS.items()}
        if name in WHOLE:
            lacking = {"rate", "latency", "verified", "simulated"} - {
                k for k, v in found.items() if v
            }
            yield from (f"{name} lacks the {claim}" for claim in sorted(lacking))
            if share is not None and not (found["gap"] or found["optimal"]):
                yield f"{name} lacks the optimality"
            if bool(found["stored"]) is not bool(report["stored_widths"]):
                yield f"{name} says {found['stored']} of the stored widths"
        if (rate := found["rate"]) and not _near(rate[1], report["throughput_per_s"]):
            yield f"{name} has a throughput of {rate[1]}"
        if latency := found["latency"]:
            seconds = float(latency[1]) * _UNITS[latency[2]]
            if abs(seconds - report["latency_s"]) > 0.006 * seconds:
                yield f"{name} has a latency of {latency[0]}"
        yield from (f"{name}: {fault}" for fault in _gap_faults(text, found, share))
        if (claim := _UNSCOPED.search(text)) is not None:
            yield f"{name} claims without a scope: {text[max(claim.start() - 30, 0) :][:90]}"


def _gap_faults(
    text: str, found: Mapping[str, re.Match[str] | None], share: float | None
) -> Iterator[str]:
    """Where the gap that a text claims is not that of the figures."""
    shown = [float(m[1]) for m in re.finditer(r"\bgap\W+(?:< )?([\d.]+) %", text)]
    if claimed := found["gap"]:
        shown.append(float(claimed[1]))
    if shown and share is None:
        yield f"a gap of {shown[0]} %, and nothing is proven"
    elif share is not None:
        yield from (f"a gap of {g} %" for g in shown if abs(g - 100 * share) > 0.1)
        if found["optimal"] and share > 1e-11:
            yield f"optimal, with a gap of {share}"


def _near(shown: str, number: float) -> bool:
    return abs(float(shown.replace(",", "")) - number) <= 0.006 * number


def _gap(report: Mapping[str, Any]) -> float | None:
    """How far from its bound the result is, from the figures that a report has of both."""
    if (facts := report.get("fabrics")) is not None:
        reached = max(row["period_s"] * (1 + row["error"]) for row in facts["chips"])
        return reached / max(row["bound_s"] for row in facts["chips"]) - 1
    bound = (report.get("divisions") or {"bound_s": report["lower_bound_s"]})["bound_s"]
    return None if bound is None else report["analytic_period_s"] / bound - 1


def bound_and_reached(folder: Path) -> tuple[float | None, float]:
    """What the folder claims that nothing in the scope is below, and what it reached itself."""
    path = folder / "placement.json"
    if path.exists():
        step = json.loads(path.read_text(encoding="utf-8"))["step"]
        return (step["bound_s"] if step["gap"] is not None else None), step["seconds"]
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    claim = report["verdict"]["optimality"]
    reached = claim["reached"]
    if (facts := report.get("fabrics")) is not None:
        # The higher level is taken at its shortest: its period may be wrong by a share.
        reached = max(row["period_s"] / (1 + row["error"]) for row in facts["chips"])
    return claim["bound"], reached


def pair(
    model: str, family: str, folder: Path, levels: tuple[int, int] = LEVELS
) -> tuple[Path, Path]:
    """Folders of a model at one level and at the next."""
    made: list[Path] = []
    for k, level in enumerate(levels):
        out = folder / f"{family}-{k}"
        if family == "host":
            options = PlaceOptions(placer="local_search", evaluations=EVALUATIONS[k])
            place_model(model, TARGETS[family], options, output=out, force=True)
        else:
            options = CompileOptions(level=level)
            compile_model(model, TARGETS[family], options, output=out, force=True)
        made.append(out)
    return made[0], made[1]


def row_of(model: str, family: str, folder: Path) -> dict[str, Any]:
    """A row of the table."""
    low, high = pair(model, family, folder)
    bound, reached = bound_and_reached(low)
    _, further = bound_and_reached(high)
    found = placed_faults_of if family == "host" else faults_of
    faults = [*found(low), *found(high)]
    return {
        "model": model,
        "family": family,
        "bound_s": bound,
        "reached_s": reached,
        "higher_level_s": further,
        "true": bound is None or further >= bound * (1 - _SLACK),
        "faults": faults,
    }


def main(arguments: list[str] | None = None) -> int:
    """Makes the table, or says whether it is whole."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="read the stored table only")
    parser.add_argument("--families", nargs="+", choices=TARGETS, default=list(TARGETS),
                        help="measure these; rows of the others stay")  # fmt: skip
    given = parser.parse_args(arguments)
    if given.check:
        rows = json.loads(DATA.read_text(encoding="utf-8"))
        return _whole(rows)
    stored = json.loads(DATA.read_text(encoding="utf-8")) if DATA.exists() else []
    rows: list[dict[str, Any]] = [row for row in stored if row["family"] not in given.families]
    for family in given.families:
        for model in MODELS:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    rows.append(row_of(model, family, Path(folder)))
                except Exception as error:
                    codes = [d.code for d in getattr(error, "diagnostics", ())]
                    rows.append({"model": model, "family": family, "refused": codes or str(error)})
            print(json.dumps(rows[-1]), flush=True)
    rows.sort(key=lambda row: (list(TARGETS).index(row["family"]), MODELS.index(row["model"])))
    DATA.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return _whole(rows)


def _whole(rows: list[dict[str, Any]]) -> int:
    """0 where each model has a row of each family, every claim holds, and no surface disagrees."""
    wrong = [row for row in rows if not row.get("true", True) or row.get("faults")]
    wanted = {(model, family) for model in MODELS for family in TARGETS}
    done = {(row["model"], row["family"]) for row in rows if "true" in row} & wanted
    print(f"{len(done)} of {len(wanted)} rows compared, {len(wrong)} with faults")
    return 1 if wrong or done != wanted else 0


if __name__ == "__main__":
    sys.exit(main())
