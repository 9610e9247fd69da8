"""Draw which chip runs which products of which inference of a round.

    mcmc compile 'zoo:vgg19{shape_only=true}' --target mcm36 -o FOLDER
    python tools/round_picture.py FOLDER docs/explanation/images/vgg19-round.svg

A column is a chip, a row a class of inferences. A cell has the first and the last of the
convolutions and matrix products that the chip computes for the class, numbered along the model,
whole or in parts.
"""

from __future__ import annotations

import argparse
import json
from html import escape
from pathlib import Path

import onnx

from mcm_compiler.graph.rounds import class_of

PRODUCTS = frozenset({"Conv", "Gemm", "MatMul"})
COLUMN, ROW, LEFT, TOP, FOOT = 24, 34, 64, 64, 24
FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
STYLE = (
    f"text{{font:11px {FONT};fill:#1f2328}}.title{{font-size:15px;font-weight:600}}"
    ".dark{fill:#fff}.light{fill:#1f2328}.none{fill:#eef2f6}@media(prefers-color-scheme:dark){text{fill:#f0f6fc}"
    ".none{fill:#212830}.light{fill:#1f2328}}"
)

Cells = dict[tuple[int, int], tuple[int, int]]


def cells_of(folder: Path) -> tuple[Cells, int, int, int]:
    """First and last product of each chip and class; numbers of chips, classes and products."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    source = onnx.load(folder / "annotated.onnx", load_external_data=False)
    products = [node.name for node in source.graph.node if node.op_type in PRODUCTS]
    number = {name: index for index, name in enumerate(products, start=1)}
    found: dict[tuple[int, int], set[int]] = {}
    for chip in manifest["chips"]:
        model = onnx.load(folder / chip["file"], load_external_data=False)
        for node in model.graph.node:
            origin = {entry.key: entry.value for entry in node.metadata_props}.get("mcm.origin", "")
            place = class_of(node.name)
            if node.op_type in PRODUCTS and origin in number and place is not None:
                found.setdefault((chip["chip"], place[1]), set()).add(number[origin])
    spans = {cell: (min(numbers), max(numbers)) for cell, numbers in found.items()}
    return spans, len(manifest["chips"]), manifest["counted"].get("round", 1), len(products)


def picture(folder: Path) -> str:
    """The SVG."""
    cells, chips, classes, products = cells_of(folder)
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    busy = [100.0 * chip["utilisation"] for chip in report["chips"]]
    width, height = LEFT + chips * COLUMN + 8, TOP + (classes + 1) * ROW + FOOT
    shown = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img"><style>{STYLE}</style>',
        f'<text class="title" x="4" y="20">{escape(report["model"]["name"].split("{")[0])}: '
        f"{classes} inferences a round on {chips} chips, which are busy "
        f"{min(busy):.0f} to {max(busy):.0f} % of the time</text>",
        '<text x="4" y="40">In a cell: the first and the last of the products that the chip '
        f"computes for this inference, of {products} in all</text>",
        f'<text x="4" y="{TOP - 6}">chip</text>',
    ]
    for chip in range(chips):
        x = LEFT + chip * COLUMN
        middle = x + (COLUMN - 2) // 2
        shown.append(f'<text x="{middle}" y="{TOP - 6}" text-anchor="middle">{chip}</text>')
        for row in range(classes):
            y, span = TOP + row * ROW, cells.get((chip, row))
            size = f'x="{x}" y="{y}" width="{COLUMN - 2}" height="{ROW - 2}"'
            if span is None:
                shown.append(f'<rect class="none" {size}/>')
                continue
            share = (sum(span) / 2 - 1) / max(products - 1, 1)
            shade, text = f"hsl(212 80% {88 - 58 * share:.0f}%)", "dark" if share > 0.5 else "light"
            shown.append(f'<rect {size} fill="{shade}"/>')
            lines = span if span[0] != span[1] else span[:1]
            for line, value in enumerate(lines):
                below = y + (13 if len(lines) > 1 else 20) + 13 * line
                shown.append(
                    f'<text class="{text}" x="{middle}" y="{below}" text-anchor="middle">'
                    f"{value}</text>"
                )
        y = TOP + classes * ROW + 20
        shown.append(f'<text x="{middle}" y="{y}" text-anchor="middle">{busy[chip]:.0f}</text>')
    shown += [
        f'<text x="4" y="{TOP + row * ROW + 20}">inference {row}</text>' for row in range(classes)
    ]
    shown.append(f'<text x="4" y="{TOP + classes * ROW + 20}">busy, %</text>')
    return "\n".join([*shown, "</svg>", ""])


def main() -> None:
    """Writes the picture."""
    parser = argparse.ArgumentParser(description="Draw which chip runs what of which inference.")
    parser.add_argument("folder", type=Path, help="output folder of a round")
    parser.add_argument("picture", type=Path, help="SVG file to write")
    asked = parser.parse_args()
    asked.picture.parent.mkdir(parents=True, exist_ok=True)
    asked.picture.write_text(picture(asked.folder), encoding="utf-8")


if __name__ == "__main__":
    main()
