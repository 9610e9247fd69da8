"""Where the true times of kernels are known, the optimum under them is found and proven."""

from __future__ import annotations

import json

import pytest

from tools.reproduce.measured_times import DATA, PROVEN, measured


@pytest.mark.parametrize(
    ("model", "sigma", "seed"),
    [
        ("zoo:plain-cnn", 0.5, 1),
        ("zoo:bert-tiny", 0.5, 1),
    ],
)
def test_the_optimum_under_true_times_is_found_and_lost_without_them(
    model: str, sigma: float, seed: int
) -> None:
    found = measured(model, "mcm4", sigma, seed)
    assert 0.0 <= found["gap"] <= PROVEN
    assert found["loss"] > 0.01
    assert found["bound_s"] <= found["with_table_simulated_s"]
    assert found["simulated_loss"] == pytest.approx(found["loss"], rel=0.05)


def test_records_are_of_the_cases_that_the_documents_name() -> None:
    records = json.loads(DATA.read_text(encoding="utf-8"))
    cases = {(r["target"], r["model"], r["sigma"], r["seed"]) for r in records}
    assert cases == {
        ("mcm16", "zoo:resnet50", sigma, seed) for sigma in (0.2, 0.5) for seed in range(5)
    }
    assert all(r["gap"] <= PROVEN and r["loss"] > 0.05 for r in records)
