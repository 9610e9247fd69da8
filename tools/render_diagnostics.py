"""Writes docs/reference/diagnostics.md from the diagnostic catalogue.

Run it after a change of the catalogue: `python tools/render_diagnostics.py`.
"""

from __future__ import annotations

import re
from pathlib import Path

from mcm_compiler.diagnostics.catalog import catalog
from mcm_compiler.text.markdown_escapes import escaped

PATH = Path(__file__).resolve().parents[1] / "docs" / "reference" / "diagnostics.md"

FAMILIES = {
    "A": "Output folder",
    "B": "Project files and builds",
    "C": "Cost models",
    "D": "Boxes of CPUs and GPUs, training steps, placers",
    "F": "Problem files, assignments and pins",
    "I": "Reading a model",
    "L": "Policies and their training",
    "M": "Fabrics: units, mappings, and the models that guess them",
    "P": "Placing ops on chips",
    "S": "Sharding rules, parallel plans and clusters",
    "T": "Targets and lowering",
    "U": "Options and the command line",
    "V": "Verification",
    "X": "Passes and plug-ins",
}
"""Heading of each family, by the letter after `MCM-`."""


def render() -> str:
    """The page: one heading per family, one per code, in the order of the codes."""
    lines = [
        "# Diagnostics",
        "",
        "Every error, warning and note of the compiler has a code. What each means, an example and",
        "what to do about it stand below; `mcmc explain CODE` prints the same. This page is made",
        "from `mcm_compiler/diagnostics/catalog/` by `python tools/render_diagnostics.py`.",
    ]
    family = ""
    for entry in catalog().values():
        letter = entry.code.removeprefix("MCM-")[0]
        if letter != family:
            family = letter
            lines += ["", f"## {FAMILIES[family]}"]
        lines += ["", f"### {entry.code}: {_markdown(entry.title)}", ""]
        lines.append(_markdown(entry.explanation.strip()))
        lines += ["", f"**Example:** {_markdown(entry.example)}"]
        lines += ["", f"**What to do:** {_markdown(entry.remedy)}"]
    return "\n".join(lines) + "\n"


def _markdown(text: str) -> str:
    """`text` as it is, but for what stands between backticks, which is code."""
    pieces = re.split(r"(`[^`]+`)", text)
    return "".join(piece if piece.startswith("`") else escaped(piece) for piece in pieces)


if __name__ == "__main__":
    PATH.write_text(render(), encoding="utf-8")
