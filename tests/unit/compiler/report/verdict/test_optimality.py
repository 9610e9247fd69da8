"""No claim about the optimum without its scope, its model and its status."""

from __future__ import annotations

import pytest

from mcm_compiler.report.report_data import build_report
from tests.generators.example_result import example_result
from tests.unit.compiler.report.verdict.test_claims import line, text


@pytest.fixture
def report():
    return dict(build_report(example_result()))


def test_a_gap_names_model_status_and_scope(report):
    assert text(report, "optimality") == (
        "at most 10.0 % above the optimal period "
        "(proven under the analytic cost model 'roofline'); among partitions "
        "of these kernels, undivided, onto 3 chips, one pipeline; simulation is 3.3 % slower "
        "than the analytic model"
    )
    stated = text({**report, "bound_proof": None}, "optimality")
    assert "(stated under the analytic cost model 'roofline')" in stated


def test_a_small_gap_is_not_called_none_and_dust_is(report):
    for share, words in ((1e-4, "less than 0.1 % above the optimal period"),
                         (0.004, "at most 0.4 % above the optimal period"),
                         (0.0, "optimal period (proven under the analytic")):  # fmt: skip
        found = line({**report, "analytic_gap": share}, "optimality")
        assert found["headline"].startswith(words)
        assert found["tone"] == "good"
    assert line({**report, "analytic_gap": 0.2}, "optimality")["tone"] == "plain"
    unknown = line({**report, "lower_bound_s": None}, "optimality")
    assert (unknown["headline"], unknown["tone"]) == ("unknown", "warn")


def test_replicas_pins_and_chips_are_part_of_the_scope(report):
    one = {"replicas": 2, "chips_each": 1, "considered": [], "chips": []}
    asked = {**report, "replication": one}
    assert "onto 1 chip, 2 equal replicas;" in text(asked, "optimality")
    free = {**asked, "replication": {**one, "considered": [{"replicas": 1}]}}
    assert "onto 3 chips, any number of equal replicas;" in text(free, "optimality")
    options = {**report["options"], "pins": [["a", 0]], "forbidden_chips": [1]}
    bound = text({**report, "options": options, "routing": "strict"}, "optimality")
    assert "strict routing, without the chips left out, with the given pins" in bound


def test_another_objective_is_what_the_claim_is_about(report):
    facts = {"kind": "latency", "unit": "s", "value": 3e-6, "bound": 2e-6, "bound_proof": "windows",
             "max_latency_s": None, "proven": [1, 2]}  # fmt: skip
    found = text({**report, "objective": facts}, "optimality")
    assert found.startswith(
        "at most 50.0 % above the optimal latency "
        "(proven under the analytic cost model 'roofline'); among"
    )
    limited = {**facts, "kind": "period", "max_latency_s": 4e-6}
    assert "latency of at most 4.00 us" in text({**report, "objective": limited}, "optimality")
    fewest = {**facts, "kind": "chips", "unit": "chips", "value": 2, "bound": 2,
              "throughput_per_s": 100.0}  # fmt: skip
    found = text({**report, "objective": fewest}, "optimality")
    assert found.startswith(
        "optimal number of chips (proven under the analytic cost model 'roofline'); among"
    )
    assert "at least 100 inferences/s" in found


def test_on_fabrics_the_gap_is_that_of_the_slowest_mapping(report):
    def chip(period_s, bound_s, error):
        return {"chip": 1, "period_s": period_s, "bound_s": bound_s, "error": error,
                "utilisation": 0.3}  # fmt: skip

    rows = [chip(3e-6, 2e-6, 0.1), chip(3.2e-6, 1e-6, 0.0)]
    found = text({**report, "analytic_gap": 0.0, "fabrics": {"chips": rows}}, "optimality")
    # 3.3 us at most over 2 us: no chip can be faster than its bound, and the slowest decides.
    assert found == (
        "at most 65.0 % above the optimal period of the slowest chip "
        "(proven under the flit simulator); "
        "among mappings of these units, with this partition and these shares of units"
    )


def test_assumed_trip_counts_void_all_claims(report):
    found = text({**report, "assumed_trips": {"decode": 1}}, "optimality")
    assert found.startswith("unknown; data decide how often loops run, times assume that 'decode'")
    assert "optimal" not in found
