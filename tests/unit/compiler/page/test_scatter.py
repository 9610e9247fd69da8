"""Points in a plane as a picture."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from mcm_compiler.exploration.texts import Dot, scatter


def test_every_point_has_its_place_shape_and_label() -> None:
    dots = [
        Dot(1.0, 50.0, 100.0, True, "<script>alert(1)</script>"),
        Dot(2.0, 25.0, None, False, "& more"),
    ]
    root = ET.fromstring(scatter(dots, "chips", "rate"))
    groups = [one for one in root if one.tag == "g"]
    titles = [group.findtext("title") for group in groups]
    assert titles == ["& more", "<script>alert(1)</script>"]
    ring, disc = (group.find("circle") for group in groups)
    assert ring is not None
    assert disc is not None
    assert (ring.get("fill"), disc.get("fill")) == ("none", "var(--accent)")
    # Twice as far to the right of the axis, and half as high above it.
    left, foot = 92.0, 380.0 - 56.0
    across = [float(one.get("cx", "")) - left for one in (disc, ring)]
    high = [foot - float(one.get("cy", "")) for one in (disc, ring)]
    assert across[1] == 2 * across[0]
    assert high[0] == 2 * high[1]
    assert [group.find("path") is None for group in groups] == [True, False]


def test_points_at_zero_have_a_picture() -> None:
    assert "<circle" in scatter([Dot(0.0, 0.0, None, True, "nothing")], "x", "y")


def test_a_line_shows_where_both_axes_are_equal() -> None:
    dots = [Dot(4.0, 1.0, None, True, "")]
    assert scatter(dots, "x", "y").count("<path") == 0
    # Axes end at 5 and 1: the line leaves the picture upwards at a fifth of its width.
    across = 92 + (760 - 92 - 20) / 5
    assert f'd="M92.0 324.0L{across:.1f} 20.0"' in scatter(dots, "x", "y", equal=True)
