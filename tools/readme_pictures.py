"""Writes the pictures of the README and of the guide to reports, for light and for dark pages.

    python tools/readme_pictures.py
    python tools/readme_pictures.py --check    exit 1 if one is not what the data give

The chart is made from `tools/bench/data/peers.json`, the annotated verdict from the output in the
README; the picture of the flow has no figures.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from mcm_compiler.report.verdict.words import at_most_text

sys.path.insert(0, str(Path(__file__).resolve().parent / "bench"))

from peer_cases.bars import ratios  # pyright: ignore[reportMissingImports]

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "images"
DATA = ROOT / "tools" / "bench" / "data" / "peers.json"

WIDTH = 760
FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
FIXED_FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'Liberation Mono', monospace"
SMALL, PLAIN, LARGE = 12, 14, 17
"""Sizes of text; pictures are shown at their own width."""

OURS = "mcm-compiler"
LEFT_OUT = frozenset({"onnxruntime", "Stream", "Stream, ZigZag 2", "Alpa"})
"""One device, or no answer at all: `docs/results/peers.md` has them."""


NOTES = {
    "✓": "Model and target. Every figure is simulated; no hardware was measured.",
    "fits": "Memory: chips in use, the fullest one, and the width at which chips store weights.",
    "throughput": "Speed of all replicas; latency is of one inference in an empty package.",
    "optimality": "Nothing in the named scope is faster by more than this, under the cost model.",
    "limited by": "Bottleneck: the busiest chips or link, and what their time is bound by.",
    "verified": "Outputs compared in onnxruntime; the proof by structure covers every op.",
}
"""Explanations of the lines of a verdict."""


class Theme(NamedTuple):
    """Colours of a picture."""

    text: str
    faint: str
    line: str
    fill: str
    strong: str


THEMES = {
    "light": Theme("#1f2328", "#59636e", "#d1d9e0", "#eef2f6", "#0969da"),
    "dark": Theme("#f0f6fc", "#9198a1", "#3d444d", "#212830", "#4493f8"),
}


def means(data: Mapping[str, Any]) -> dict[str, tuple[float, int]]:
    """Geometric mean of the period over ours, and the models that it is of, by program."""
    found = {name: ratios(data, name) for name in data["programs"] if name not in LEFT_OUT}
    return {
        name: (math.exp(sum(map(math.log, values)) / len(values)), len(values))
        for name, values in found.items()
        if values
    }


def chart(data: Mapping[str, Any], theme: Theme) -> str:
    """Periods of other programs over ours, as bars."""
    total = len(data["models"])
    worst = max(model["ours"]["period_s"] / model["ours"]["bound_s"] for model in data["models"])
    rows = sorted(means(data).items(), key=lambda row: row[1][0])
    nearest, furthest = rows[0][1][0], rows[-1][1][0]
    title = (
        f"{total} models, one 36-chip pipeline: others need {nearest:.2f} to {furthest:.1f} times "
        "our period"
    )
    left, right, top, step = 150, 190, 72, 26
    scale = (WIDTH - left - right) / math.log(furthest)
    marks = [
        svg_text(0, 20, title, LARGE, theme.text, bold=True),
        svg_text(
            0, 42, f"Ours is {at_most_text(worst - 1)} above the proven bound (roofline). "
            "Geometric means, log scale, nothing measured on hardware.", SMALL, theme.faint),
    ]  # fmt: skip
    for k, (program, (mean, count)) in enumerate([(OURS, (1.0, total)), *rows]):
        y = top + k * step
        length = max(math.log(mean) * scale, 3.0)
        colour = theme.strong if program == OURS else theme.faint
        note = "" if count == total else f"  ({count} of {total} models)"
        marks += [
            svg_text(left - 10, y + 13, program, PLAIN, theme.text, anchor="end"),
            f'<rect x="{left}" y="{y}" width="{length:.1f}" height="17" fill="{colour}"/>',
            svg_text(left + length + 8, y + 13, f"{mean:.2f}x{note}", PLAIN, theme.text),
        ]
    end = top + step * (len(rows) + 1) + 14
    note = (
        "Cuts of Scotch, KaHIP and METIS ignore the ring's direction and are mostly repaired by "
        "us; random parts are a control."
    )
    marks.append(svg_text(0, end, note, SMALL, theme.faint))
    return svg_picture(title, end + 8, marks)


def flow(theme: Theme) -> str:
    """From one file to a file per chip, and what is then known."""
    title = "One ONNX model in; one plain ONNX model per chip and four answers out"
    marks = [
        svg_text(0, 20, title, LARGE, theme.text, bold=True),
        *_box(0, 92, 116, ("model.onnx", "any opset from 7"), theme),
        _arrow(120, 118, 154, theme),
    ]
    for chip in range(36):
        column, row = chip % 9, chip // 9
        column = column if row % 2 == 0 else 8 - column
        x, y = 164 + 31 * column, 62 + 31 * row
        marks.append(
            f'<rect x="{x}" y="{y}" width="23" height="23" rx="3" fill="{theme.fill}" '
            f'stroke="{theme.strong}"/>'
        )
        if chip < 35:
            ends = (x + 23, y + 11, 8, 0) if row % 2 == 0 else (x - 8, y + 11, 8, 0)
            if chip % 9 == 8:
                ends = (x + 11, y + 23, 0, 8)
            marks.append(
                f'<path d="M{ends[0]} {ends[1]}l{ends[2]} {ends[3]}" stroke="{theme.strong}"/>'
            )
    marks.append(svg_text(164, 208, "36 chips on a one-way ring", SMALL, theme.faint))
    marks.append(_arrow(446, 118, 480, theme))
    answers = (
        ("Does it fit?", "a memory plan with addresses"),
        ("How fast?", "simulated rate and latency"),
        ("What limits it?", "chip, engine, link or host"),
        ("How far from optimal?", "a proven bound, with scope"),
    )
    for k, (question, answer) in enumerate(answers):
        y = 62 + 36 * k
        marks.append(svg_text(490, y + 8, question, PLAIN, theme.text, bold=True))
        marks.append(svg_text(490, y + 24, answer, SMALL, theme.faint))
    return svg_picture(title, 222, marks)


def verdict(theme: Theme) -> str:
    """The lines of a verdict, numbered and explained."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = readme.partition("<!-- report:begin -->\n```\n")[2].partition("\n```")[0].splitlines()
    title, top, step = "The verdict of a report, line by line", 36, 17
    frame = step * len(lines) + 16
    marks = [
        svg_text(0, 20, title, LARGE, theme.text, bold=True),
        f'<rect x="28" y="{top}" width="{WIDTH - 29}" height="{frame}" rx="6" '
        f'fill="{theme.fill}" stroke="{theme.line}"/>',
        f'<g font-family="{escape(FIXED_FONT)}">',
        *(
            svg_text(36, top + 20 + step * k, line.replace(" ", "\u00a0"), 11.5, theme.text)
            for k, line in enumerate(lines)
        ),
        "</g>",
    ]
    for number, (name, note) in enumerate(NOTES.items(), 1):
        (line,) = (k for k, text in enumerate(lines) if text.strip().startswith(name))
        y = top + frame + 10 + 22 * number
        marks += _number(number, top + 16 + step * line, theme) + _number(number, y - 4, theme)
        marks.append(svg_text(36, y, note, PLAIN, theme.text))
    return svg_picture(title, top + frame + 22 * len(NOTES) + 24, marks)


def _number(number: int, y: float, theme: Theme) -> list[str]:
    return [
        f'<circle cx="12" cy="{y:g}" r="8" fill="none" stroke="{theme.strong}"/>',
        svg_text(12, y + 4, str(number), 11, theme.strong, anchor="middle", bold=True),
    ]


def _box(x: int, y: int, width: int, lines: tuple[str, str], theme: Theme) -> list[str]:
    return [
        f'<rect x="{x}" y="{y}" width="{width}" height="52" rx="6" fill="{theme.fill}" '
        f'stroke="{theme.line}"/>',
        svg_text(x + width / 2, y + 22, lines[0], PLAIN, theme.text, anchor="middle", bold=True),
        svg_text(x + width / 2, y + 40, lines[1], SMALL, theme.faint, anchor="middle"),
    ]


def _arrow(x: int, y: int, end: int, theme: Theme) -> str:
    return (
        f'<path d="M{x} {y}H{end}m-7-5l7 5l-7 5" fill="none" stroke="{theme.faint}" '
        'stroke-width="1.5"/>'
    )


def svg_text(
    x: float, y: float, text: str, size: float, colour: str, *, anchor: str = "start",
    bold: bool = False,
) -> str:  # fmt: skip
    """A line of text of a picture."""
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{colour}" text-anchor="{anchor}"'
        f"{weight}>{escape(text)}</text>"
    )


def svg_picture(title: str, height: float, marks: list[str]) -> str:
    """A picture of marks."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:g}" '
        f'viewBox="0 0 {WIDTH} {height:g}" role="img" font-family="{escape(FONT)}">'
    )
    return "\n".join([head, f"<title>{escape(title)}</title>", *marks, "</svg>", ""])


def adaptive_picture(title: str, note: str, height: float, marks: list[str]) -> str:
    """One picture for light and dark pages: marks use `--ink`, `--soft`, `--line`, `--accent`."""
    light, dark = (
        f"--ink:{theme.text};--soft:{theme.faint};--line:{theme.line};--accent:{theme.strong};"
        for theme in THEMES.values()
    )
    head = [
        f"<style>:root{{{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}</style>",
        svg_text(0, 20, title, LARGE, "var(--ink)", bold=True),
        svg_text(0, 42, note, SMALL, "var(--soft)"),
    ]
    return svg_picture(title, height, [*head, *marks])


def pictures() -> dict[str, str]:
    """The texts of all files, by name."""
    data = json.loads(DATA.read_text(encoding="utf-8"))
    found: dict[str, str] = {}
    for name, theme in THEMES.items():
        found[f"flow-{name}.svg"] = flow(theme)
        found[f"peers-{name}.svg"] = chart(data, theme)
        found[f"verdict-{name}.svg"] = verdict(theme)
    return found


def main(arguments: list[str] | None = None) -> int:
    """Writes or compares the files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args(arguments).check
    FOLDER.mkdir(parents=True, exist_ok=True)
    stale = 0
    for name, text in pictures().items():
        path = FOLDER / name
        if check:
            same = path.exists() and path.read_text(encoding="utf-8") == text
            stale += not same
            if not same:
                print(f"{path.relative_to(ROOT)} is stale: run python tools/readme_pictures.py")
        else:
            path.write_text(text, encoding="utf-8")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
