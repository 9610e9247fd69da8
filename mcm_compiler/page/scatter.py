"""Pictures of points as markup that needs no script.

Colours are those of the page's style. A point that stands out is a filled disc, others are rings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from mcm_compiler.text.units import printable

WIDTH, HEIGHT = 760, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 92, 20, 20, 56
_TICKS = 5


@dataclass(frozen=True)
class Dot:
    """A point.

    Attributes:
        x: its place to the right.
        y: its place upwards.
        limit: what y can be at most, or None; drawn as a line up to a bar.
        stands_out: whether it is a disc.
        label: text of its tooltip.
        name: text next to it, or "".
    """

    x: float
    y: float
    limit: float | None
    stands_out: bool
    label: str
    name: str = ""


def scatter(
    dots: Sequence[Dot],
    across: str,
    up: str,
    equal: bool = False,
    lines: Sequence[Sequence[Dot]] = (),
) -> str:
    """The picture as markup; all texts are escaped. Both axes begin at 0.

    Args:
        dots: with finite numbers that are not negative, at least one.
        across: what the axis to the right is.
        up: what the upward axis is.
        equal: draw a line where both are equal.
        lines: dots that a line joins.
    """
    right = _axis_end(max(dot.x for dot in dots))
    top = _axis_end(max(max(dot.y, dot.limit or 0.0) for dot in dots))

    def at_x(value: float) -> float:
        return round(_LEFT + value / right * (WIDTH - _LEFT - _RIGHT), 1)

    def at_y(value: float) -> float:
        return round(HEIGHT - _BOTTOM - value / top * (HEIGHT - _TOP - _BOTTOM), 1)

    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{_text(f"{up} against {across}")}" font-size="13">'
    ]
    for step in range(_TICKS + 1):
        x, y = right * step / _TICKS, top * step / _TICKS
        parts += [
            f'<line x1="{at_x(x)}" y1="{_TOP}" x2="{at_x(x)}" y2="{HEIGHT - _BOTTOM}" '
            'stroke="var(--line)"/>',
            f'<line x1="{_LEFT}" y1="{at_y(y)}" x2="{WIDTH - _RIGHT}" y2="{at_y(y)}" '
            'stroke="var(--line)"/>',
            f'<text x="{at_x(x)}" y="{HEIGHT - _BOTTOM + 18}" text-anchor="middle" '
            f'fill="var(--soft)">{_number(x)}</text>',
            f'<text x="{_LEFT - 34}" y="{at_y(y) + 4}" text-anchor="end" '
            f'fill="var(--soft)">{_number(y)}</text>',
        ]
    parts += [
        f'<text x="{(WIDTH + _LEFT) / 2}" y="{HEIGHT - 12}" text-anchor="middle" '
        f'fill="var(--ink)">{_text(across)}</text>',
        f'<text transform="translate(16 {HEIGHT / 2}) rotate(-90)" text-anchor="middle" '
        f'fill="var(--ink)">{_text(up)}</text>',
    ]
    if equal:
        end = min(right, top)
        parts.append(
            f'<path d="M{at_x(0.0)} {at_y(0.0)}L{at_x(end)} {at_y(end)}" stroke="var(--soft)"/>'
        )
    for line in lines:
        path = "L".join(f"{at_x(dot.x)} {at_y(dot.y)}" for dot in line)
        parts.append(f'<path d="M{path}" fill="none" stroke="var(--soft)"/>')
    for dot in sorted(dots, key=lambda one: one.stands_out):
        x, y = at_x(dot.x), at_y(dot.y)
        fill = "var(--accent)" if dot.stands_out else "none"
        parts.append(f"<g><title>{_text(dot.label)}</title>")
        if dot.limit is not None:
            high = at_y(dot.limit)
            parts.append(
                f'<path d="M{x} {y}V{high}M{x - 5} {high}h10" fill="none" stroke="var(--warn)"/>'
            )
        parts.append(
            f'<circle cx="{x}" cy="{y}" r="5" fill="{fill}" stroke="var(--accent)" '
            'stroke-width="1.5"/></g>'
        )
        if dot.name:
            side, shift = ("end", -8) if x > 0.8 * WIDTH else ("start", 8)
            parts.append(
                f'<text x="{x + shift:g}" y="{y + 15:g}" text-anchor="{side}" '
                f'fill="var(--ink)">{_text(dot.name)}</text>'
            )
    return "".join([*parts, "</svg>"])


def _axis_end(most: float) -> float:
    """A round number that is at least `most`."""
    if most <= 0:
        return 1.0
    scale = 10.0 ** math.floor(math.log10(most))
    return next(scale * one for one in (1, 2, 2.5, 5, 10) if scale * one >= most * 0.9999)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _text(text: str) -> str:
    return escape(printable(text))
