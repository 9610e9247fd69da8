"""The verdict: each claim with its condition, derived from the report alone."""

from __future__ import annotations

import json

import pytest

from mcm_compiler.report.report_data import build_report
from mcm_compiler.report.verdict.claims import verdict_of
from mcm_compiler.text import json_text
from mcm_compiler.text.headline import line_text
from tests.generators.example_result import bare_result, example_result


@pytest.fixture
def report():
    return dict(build_report(example_result()))


def line(report, label):
    return next((one for one in verdict_of(report)["lines"] if one["label"] == label), None)


def text(report, label):
    return line_text(line(report, label))


def test_the_verdict_follows_from_the_report_as_it_is_stored(report):
    stored = json.loads(json_text.dump(report))
    assert verdict_of(stored) == stored["verdict"] == verdict_of({**stored, "verdict": None})


def test_stored_widths_stand_next_to_weights_and_next_to_bit_identical(report):
    assert report["stored_widths"] == [{"type": "float", "file_bits": 32, "stored_bits": 16.0}]
    for label in ("fits", "verified"):
        assert "chips store FLOAT as 16 bits" in text(report, label)
        assert "16 bits" not in text({**report, "stored_widths": []}, label)
    assert "at the precision of the file" in text(report, "verified")


def test_the_latency_names_its_load(report):
    assert "latency 340 us (one inference, empty package)" in text(report, "throughput")


def test_the_fullest_chip_says_whether_it_fits(report):
    assert line(report, "fits")["tone"] == "good"
    assert "fullest is chip 2: 36.0 MiB of 64.0 MiB" in text(report, "fits")
    row = dict(report["chips"][0], sram_high_water_bytes=65 << 20)
    over = {**report, "chips": [row, *report["chips"][1:]]}
    assert "does NOT fit" in text(over, "fits")
    assert not verdict_of(over)["good"]


def test_a_difference_of_outputs_is_bad(report):
    outputs = [dict(report["verification"]["outputs"][0], holds=False, bit_equal=False)]
    wrong = dict(report["verification"], holds=False, outputs=outputs)
    found = line({**report, "verification": wrong}, "verified")
    assert (found["headline"][:6], found["tone"]) == ("FAILED", "bad")
    assert not verdict_of({**report, "verification": wrong})["good"]
    none = line({**report, "verification": None}, "verified")
    assert (none["headline"], none["tone"]) == ("not run", "warn")


def test_what_was_not_computed_is_not_claimed():
    report = dict(build_report(bare_result()))
    assert "memory not planned" in text(report, "fits")
    assert text(report, "throughput") == "not simulated"
    assert text(report, "limited by") == "unknown; not simulated"
    assert text(report, "optimality").startswith("unknown")
    assert verdict_of(report)["basis"] == "analytic model only, no hardware measured"


def test_given_times_of_kernels_change_the_basis(report):
    chosen = {"model": "table", "files": {}, "coverage": {"ops": 4, "measured_ops": 1,
                                                          "measured_share": 0.25}}  # fmt: skip
    basis = verdict_of({**report, "chosen_cost_model": chosen})["basis"]
    assert basis == "simulated; given times for 25.0 % of kernel time"
