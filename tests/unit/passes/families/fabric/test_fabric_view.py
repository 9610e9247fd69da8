from mcm_compiler.page.compiled_page import added_section
from mcm_compiler.page.contents import Compiled
from mcm_compiler.report.report_data import build_report
from tests.generators.example_result import example_result

COUNTS = {"compute": 1, "memory": 1, "io": 1}
PLAN = {
    "rows": 1,
    "cols": 2,
    "stages": ["in", "a\nb"],
    "units": [[0, 0, 0, 1], [0, 1, 1, 1], [0, -1, 2, 0]],
    "links": [[0, 7]],
}


def row(chip, like, plan):
    return {
        "chip": chip, "like": like, "method": "annealing", "stages": 2, "units": COUNTS,
        "streams": 2, "period_s": 2e-6, "bound_s": 1e-6, "latency_s": 3e-6, "error": 0.0,
        "utilisation": 0.5, "plan": plan,
    }  # fmt: skip


def test_chips_that_are_laid_out_alike_share_a_plan():
    facts = {"sites": COUNTS, "chips": [row(0, None, PLAN), row(1, 0, None)]}
    report = {**build_report(example_result()), "fabrics": facts}
    section = added_section(Compiled(report))
    assert [plan["name"] for plan in section.view.data["plans"]] == ["chip 0, 1"]
    assert section.view.data["plans"][0]["stages"] == ["in", "a\\nb"]
    assert [cells[-1] for cells in section.tables[0].rows] == ["annealing", "as chip 0"]
    assert section.tables[0].rows[0][3] == "100.0 %"


def test_chips_that_are_no_fabrics_have_no_plan():
    assert added_section(Compiled(build_report(example_result()))) is None
