import pytest

from mcm_compiler.page.bound_view import bottleneck_section, bound_section
from mcm_compiler.page.contents import Compiled
from mcm_compiler.report.report_data import build_report
from tests.generators.example_result import example_result


@pytest.fixture
def report():
    return dict(build_report(example_result()))


def test_periods_are_drawn_by_their_distance_from_the_lowest_bound(report):
    over = {"bound_s": 1e-4, "argument": "work of the parts"}
    section = bound_section(Compiled({**report, "divisions": over}))
    bars = {bar["name"]: bar["text"] for bar in section.view.data["bars"]}
    assert bars == {
        "simulated": "125 us, 25.0 % above the lowest bound",
        "under roofline": "121 us, 21.0 % above the lowest bound",
        "bound of these kernels, undivided": "110 us, 10.0 % above the lowest bound",
        "bound over all divisions": "100 us",
    }
    assert section.view.data["bars"][-1]["seconds"] == 0
    assert "roofline" in section.lead[0]
    assert "total work / 3 chips" in section.lead[1]


def test_without_a_bound_there_is_no_section(report):
    assert bound_section(Compiled({**report, "lower_bound_s": None})) is None


def test_numbers_of_pipelines_are_listed_and_the_chosen_one_marked(pair):
    count = {"replicas": 2, "chips_each": 2, "analytic_period_s": 1e-3, "simulated_period_s": None,
             "lower_bound_s": 9e-4, "bound_proof": None, "ruled_out": None}  # fmt: skip
    other = {**count, "replicas": 4, "chips_each": 1, "ruled_out": "MCM-P004"}
    replication = {**pair.report["replication"], "considered": [count, other]}
    section = bound_section(Compiled({**pair.report, "replication": replication}))
    rows = section.tables[0].rows
    assert rows[0][0] == "2 replicas (chosen)"
    assert rows[1][-1] == "MCM-P004"


def test_moves_are_told_with_what_they_gain_and_older_ones_without(report):
    old = {"name": "a", "along": 1, "to_chip": 2, "need_bytes": 10, "free_bytes": 20,
           "busy_without_s": 1.0, "busy_there_s": 2.0}  # fmt: skip
    new = {**old, "from_chip": 1, "period_s": 1e-3, "gain": 0.05}
    worst = {**report["bottleneck"], "moves": [new, old]}
    table = bottleneck_section(Compiled({**report, "bottleneck": worst})).tables[-1]
    assert table.rows[0] == ("a and 1 more", "chip 1", "chip 2", "10 B", "20 B", "2.00 s", "5.0 %")
    assert table.rows[1][1] == table.rows[1][-1] == "-"
