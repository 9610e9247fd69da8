"""Outcomes as counts, as committed data, and as a page of the documentation."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from backend_cases.collection import CATEGORIES
from backend_cases.judging import EQUAL, FAILED, NOT_RUN, RANDOM, Outcome

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "tools" / "bench" / "data" / "conformance.json"
PAGE = ROOT / "docs" / "results" / "conformance.md"


def conformance_share(outcomes: Sequence[Outcome]) -> float:
    """Cases that compile and check equal, as a share of those that onnxruntime runs.

    Cases that draw random numbers cannot be compared and count on neither side.
    """
    counts = Counter(outcome.verdict for outcome in outcomes)
    judged = counts[EQUAL] + counts[FAILED]
    return counts[EQUAL] / judged if judged else 0.0


def as_data(outcomes: Sequence[Outcome], versions: dict[str, str]) -> dict[str, Any]:
    """Data to commit: counts by category, and every case that is not bit-identical.

    It holds no times, so that equal outcomes give equal bytes.
    """
    exceptions = [
        {
            "category": outcome.category,
            "name": outcome.name,
            "verdict": outcome.verdict,
            "reason": outcome.reason,
            "detail": outcome.detail,
        }
        for outcome in outcomes
        if outcome.reason
    ]
    return {
        "versions": versions,
        "share": conformance_share(outcomes),
        "counts": {category: _counts(outcomes, category) for category in CATEGORIES},
        "reasons": dict(
            sorted(Counter(o.reason for o in outcomes if o.verdict == NOT_RUN).items())
        ),
        "exceptions": exceptions,
        "unlike_expected": [
            {"category": o.category, "name": o.name} for o in outcomes if o.expected is False
        ],
    }


def write(data: dict[str, Any]) -> None:
    """Writes the data and the page."""
    DATA.parent.mkdir(exist_ok=True)
    DATA.write_text(json.dumps(data, indent=1, ensure_ascii=True) + "\n", encoding="utf-8")
    PAGE.write_text(render(data), encoding="utf-8")


def render(data: dict[str, Any]) -> str:
    """docs/results/conformance.md."""
    versions = data["versions"]
    columns = ("cases", EQUAL, "on several chips", RANDOM, NOT_RUN, FAILED)
    total: Counter[str] = Counter()
    for counts in data["counts"].values():
        total.update(counts)
    lines = [
        "# Conformance",
        "",
        f"**{data['share'] * 100:.2f} %** of the backend test cases that onnx ships and that",
        f"onnxruntime runs compile and check equal: {total[EQUAL]:,} of "
        f"{total[EQUAL] + total[FAILED]:,}, with onnx {versions['onnx']}",
        f"and onnxruntime {versions['onnxruntime']}.",
        "",
        "Each case is compiled for `mcm4` with the default pipeline. The chips' models run in",
        "stock onnxruntime without graph optimisations. Their outputs have to be bit-identical to",
        "those of the whole model, on the case's inputs and on random ones. The light models",
        "ignore their input as shipped, so their weights are random. VGG-19 is compiled for",
        "`mcm16`: its weights exceed the memory of four chips.",
        "",
        f"| category | {' | '.join(columns)} |",
        f"|---|{'---:|' * len(columns)}",
    ]
    for category, counts in (*data["counts"].items(), ("all", total)):
        lines.append(f"| {category} | {' | '.join(str(counts[c]) for c in columns)} |")
    lines += [
        "",
        "`python tools/bench/conformance.py --update` writes this page and the data, which has",
        "every exception with its message: `tools/bench/data/conformance.json`.",
        "",
        "## What onnxruntime does not run",
        "",
        "| reason | cases |",
        "|---|---:|",
    ]
    lines += [f"| {reason} | {count} |" for reason, count in data["reasons"].items()]
    for verdict, intro in _SECTIONS:
        named = [e for e in data["exceptions"] if e["verdict"] == verdict]
        title = "Equal within a tolerance" if verdict == EQUAL else verdict.capitalize()
        lines += ["", f"## {title}: {len(named)}", "", intro, *([""] if named else [])]
        for reason in dict.fromkeys(sorted(e["reason"] for e in named)):
            names = (f"`{e['name']}`" for e in named if e["reason"] == reason)
            lines += [f"- {reason}:", *(f"    - {name}" for name in names)]
    lines += [
        "",
        f"## Other results than the case expects: {len(data['unlike_expected'])}",
        "",
        "The chips are bit-identical to the whole model in onnxruntime. onnxruntime itself differs",
        "from the expected outputs by more than the case allows.",
    ]
    return "\n".join(lines) + "\n"


_SECTIONS = (
    (FAILED, "Cases that onnxruntime runs, and that do not compile or check equal."),
    (
        EQUAL,
        "Models with 16-bit floats that are cut. onnxruntime's CPU kernels compute these in 32\n"
        "bits and round where a value leaves a chip; a relative error of 2^-7 is allowed.",
    ),
    (RANDOM, "Their outputs differ in every run, so nothing can be compared."),
)


def _counts(outcomes: Sequence[Outcome], category: str) -> dict[str, int]:
    of_category = [outcome for outcome in outcomes if outcome.category == category]
    verdicts = Counter(outcome.verdict for outcome in of_category)
    return {
        "cases": len(of_category),
        EQUAL: verdicts[EQUAL],
        "on several chips": sum(o.verdict == EQUAL and o.chips > 1 for o in of_category),
        RANDOM: verdicts[RANDOM],
        NOT_RUN: verdicts[NOT_RUN],
        FAILED: verdicts[FAILED],
    }
