from __future__ import annotations

from xml.etree import ElementTree

from mcm_passes.families.fabric.fabric_section import floor_plan_lines

HOSTILE = "</svg><script>alert(1)</script>"
PLAN = {
    "rows": 2,
    "cols": 2,
    "stages": ["in", HOSTILE],
    "units": [(0, 0, 0, 1), (0, 1, 1, 0), (1, -1, 2, 0)],
    "links": [(0, 7), (5, 3)],
}


def test_the_drawing_is_one_well_formed_element_with_a_mark_for_each_unit():
    lines = floor_plan_lines(PLAN)
    end = lines.index("</svg>") + 1
    drawing = ElementTree.fromstring("\n".join(lines[:end]))
    tags = [each.tag.rpartition("}")[2] for each in drawing]
    assert tags.count("circle") == tags.count("path") == 1
    assert tags.count("line") == 2
    assert tags.count("rect") == 1 + len(PLAN["stages"])
    assert "script" not in tags
    assert "" not in lines[:end]


def test_the_text_has_the_units_where_they_lie():
    lines = floor_plan_lines(PLAN)
    assert "       [B](A)" in lines
    assert "    <A> .  ." in lines
