"""Writes docs/reference/gradient-rules.md: operators with a gradient rule, and those without.

Run it after a change of the rules or of tools/data/gradients.json:
`python tools/render_gradient_rules.py`; with `--check` it only says whether the page is up to date.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from mcm_passes.differentiation.onnx_rules import FAMILIES
from mcm_passes.differentiation.rules.refused import REASONS

ROOT = Path(__file__).resolve().parents[1]
PATH = ROOT / "docs" / "reference" / "gradient-rules.md"
DATA = ROOT / "tools" / "data" / "gradients.json"

INTRODUCTION = """\
# Gradient rules

`differentiate` goes back from the loss op by op. Each operator needs a rule that gives gradients of
its inputs. Rules are written for static shapes and for opset 18 or newer; older models are
converted. They emit only operators of ONNX. A plug-in adds its own with an entry point
`gradient-rule.OPERATOR`. This page is written by `python tools/render_gradient_rules.py`.
"""


def page() -> str:
    """The whole page."""
    cases: dict[str, Any] = json.loads(DATA.read_text())["cases"]
    lines = [INTRODUCTION, "## With a rule", "", "| family | operators |", "|---|---|"]
    lines += [_family(name) for name in FAMILIES if name != "refused"]
    lines += ["", "## Without a gradient", "", "An op on the way from a weight to the loss gives"]
    lines += [
        "one diagnostic, MCM-D031, with the reason:",
        "",
        "| operator | reason |",
        "|---|---|",
    ]
    lines += [f"| `{operator}` | {reason} |" for operator, reason in sorted(REASONS.items())]
    lines += ["", "Operators that neither table names give MCM-D030.", "", *_measured(cases)]
    return "\n".join(lines) + "\n"


def _family(name: str) -> str:
    module = import_module(f"mcm_passes.differentiation.rules.{name}")
    first = (module.__doc__ or name).splitlines()[0].rstrip(".").removeprefix("Gradients of ")
    first = first.partition(":")[0].partition(" (")[0]
    operators = ", ".join(f"`{operator}`" for operator in sorted(FAMILIES[name]))
    return f"| {first} | {operators} |"


def _measured(cases: dict[str, Any]) -> list[str]:
    """What onnx's backend cases show."""
    share = cases["passed"] / cases["counted"]
    versions = ", ".join(f"{name} {version}" for name, version in cases["versions"].items())
    rows = [
        (operator, entry)
        for operator, entry in cases["operators"].items()
        if any(word in entry for word in ("refused", "wrong", "broken", "not finite"))
    ]
    return [
        "## Compared with finite differences",
        "",
        f"`{cases['command'].removesuffix(' --update')}` differentiates the test cases of onnx",
        "whose inputs of floating point reach an output, and compares with central differences",
        "along random directions in double precision, to a relative error of 1e-4.",
        f"{cases['passed']:,} of {cases['counted']:,} pass ({share:.1%}; {versions}).",
        "Operators with cases that fail:",
        "",
        "| operator | pass | fail | first reason |",
        "|---|---:|---:|---|",
        *(_row(operator, entry) for operator, entry in rows),
    ]


def _row(operator: str, entry: dict[str, Any]) -> str:
    failed = sum(entry.get(word, 0) for word in ("refused", "wrong", "broken", "not finite"))
    reason = str(entry.get("reason", "")).partition("; ")[0].replace("|", "\\|")
    return f"| `{operator}` | {entry.get('passed', 0)} | {failed} | {reason} |"


def main() -> int:
    """Writes the page, or compares."""
    text = page()
    if "--check" not in sys.argv[1:]:
        PATH.write_text(text, encoding="utf-8")
        return 0
    fresh = PATH.exists() and PATH.read_text(encoding="utf-8") == text
    print(f"{PATH.relative_to(ROOT)} is {'up to date' if fresh else 'out of date'}")
    return 0 if fresh else 1


if __name__ == "__main__":
    sys.exit(main())
