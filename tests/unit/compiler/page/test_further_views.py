import pytest

from mcm_compiler.page.bound_view import (
    LISTED,
    additions_section,
    host_section,
    sensitivity_section,
    sharding_section,
    state_section,
    verification_section,
)
from mcm_compiler.page.contents import SECTIONS, Compiled
from mcm_compiler.report.report_data import build_report
from tests.generators.example_result import bare_result, example_result


@pytest.fixture
def report():
    return dict(build_report(example_result()))


def test_sharded_operators_are_listed_with_their_pieces(report):
    assert sharding_section(Compiled(report)).tables[0].rows == (
        ("fc9", "w9", "80.0 MiB", "1", "2"),
    )


def test_copies_and_relays_are_listed(report):
    clones, relays = additions_section(Compiled(report)).tables
    assert clones.rows == (("mask", "mask/1", "1"),)
    assert relays.rows == (("skip", "skip/relay/1", "1"),)


def test_long_lists_say_how_many_are_left_out(report):
    one = report["verification"]["outputs"][0]
    many = dict(report["verification"], outputs=[one] * (LISTED + 3))
    section = verification_section(Compiled({**report, "verification": many}))
    assert len(section.tables[0].rows) == LISTED
    assert "3 more" in section.lead[-1]


def test_sensitivities_are_bars_and_rows_and_faults_are_told(report):
    figures = {"throughput_per_s": 1000.0, "period_s": 1e-3, "lower_bound_s": 9e-4, "gap": 0.1,
               "latency_s": 2e-3}  # fmt: skip
    rows = [
        {"resource": "array", "factor": 2.0, "speedup": 1.5, "faults": [], **figures},
        {"resource": "SRAM", "factor": 0.5, "speedup": None,
         "faults": [{"code": "MCM-P004", "message": "it does not fit"}]},
    ]  # fmt: skip
    section = sensitivity_section(Compiled({**report, "sensitivities": rows}))
    assert [bar["name"] for bar in section.view.data["bars"]] == ["twice the array"]
    assert section.tables[0].rows[0][:3] == ("twice the array", "1,000", "1.50x")
    assert section.tables[0].rows[1][:2] == ("half the SRAM", "MCM-P004: it does not fit")
    assert all(len(row) == len(section.tables[0].heads) for row in section.tables[0].rows)


def test_batches_and_contexts_are_points_and_rows(report):
    size = {"batch": 2, "context": 64, "status": "estimated", "fitting_sequences": 10,
            "tokens_per_s": 1234.0, "tpot_s": 2e-3, "within_limits": True}  # fmt: skip
    none = {**size, "batch": 8, "tokens_per_s": None, "tpot_s": None, "within_limits": False}
    chips = [{"chip": 0, "sequence_bytes": 1024, "held_bytes": 2048}]
    more = {**size, "batch": 4, "tokens_per_s": 2000.0, "tpot_s": 3e-3}
    states = {"chips": chips, "sizes": [more, size, none]}
    section = state_section(Compiled({**report, "states": states}))
    assert [row[0] for row in section.tables[0].rows] == ["4", "2", "8"]
    (drawing,) = section.drawings
    assert drawing.count("<circle") == 2
    assert drawing.count('stroke="var(--soft)"/>') == 1
    assert ">batch 2<" in drawing
    assert ">batch 4, context 64<" in drawing
    assert "batch 2, context 64 (estimated): 1,234 tokens/s, 2.00 ms per token" in drawing
    section = state_section(Compiled({**report, "states": {**states, "sizes": [none]}}))
    assert section.drawings == ()


def test_nothing_has_no_section():
    compiled = Compiled(dict(build_report(bare_result())))
    sections = (additions_section, host_section, sensitivity_section, sharding_section,
                state_section, verification_section)  # fmt: skip
    assert [section(compiled) for section in sections] == [None] * len(sections)


def test_the_line_on_users_leads_to_batches_and_contexts():
    assert SECTIONS["serves"] == "states"
