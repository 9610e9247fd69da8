"""Random cuts are valid, and predictions that are right come out as right."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from mcm_compiler.api import compile_model
from tests.generators.partition_problems import make_problem
from tools.kept_records import KeptRecords
from tools.reproduce.machines.ring_page import sentence, written
from tools.reproduce.machines.ring_periods import (
    DATA,
    DEFAULT_PIPELINE,
    MODELS,
    Run,
    busy_summary,
    kept,
    options,
    random_chips,
    summary,
)


@pytest.mark.parametrize(
    ("last_us", "chips", "different"), [(90, 2, 1), (1, 2, 5), (90, 4, 2), (1, 4, 5)]
)
def test_each_cut_leaves_work_on_all_chips_and_no_edge_backwards(
    last_us: int, chips: int, different: int
) -> None:
    edges = [(0, 2), (1, 2), (2, 3), (2, 4), (3, 5), (4, 5)]
    problem = make_problem([1, 1, 1, 1, 1, last_us], edges)
    cuts = [random_chips(problem, chips, seed) for seed in range(20)]
    for chip_of in cuts:
        assert set(chip_of.values()) == set(range(chips))
        assert all(chip_of[problem.names[a]] <= chip_of[problem.names[b]] for a, b in edges)
    assert len({tuple(sorted(chip_of.items())) for chip_of in cuts}) >= different


def test_chips_are_those_that_a_compile_writes(tmp_path: Path) -> None:
    run = Run(MODELS[0], 2, tmp_path, KeptRecords(DATA, "code"))
    chip_of = random_chips(run.problem, 2, 1)
    opened, given = run.split(chip_of), tmp_path / "given.csv"
    given.write_text("\n".join(["name,chip", *(f"{name},{c}" for name, c in chip_of.items())]))
    asked = replace(options(DEFAULT_PIPELINE.removesuffix(",verify")), assignment=str(given))
    folder = tmp_path / "compiled"
    compiled = compile_model(MODELS[0], "cpu-ring", asked, output=folder).manifest
    assert opened.manifest.wires == compiled.wires
    for entry in compiled.chips:
        one, other = (onnx.load(str(place / entry.file)) for place in (opened.path, folder))
        assert one.graph == other.graph


def test_right_predictions_have_no_error() -> None:
    rng = np.random.default_rng(0)
    true_s = rng.random(8) + 0.5
    kernels = [(f"k{n}", "Conv", 1.0, float(s)) for n, s in enumerate(true_s)]
    records: list[dict[str, Any]] = [{"kernels": kernels, "period_s": float(true_s.sum())}]
    for cut in (1, 2, 3, 4, 5, 6, 7, 2, 3, 4, 5, 6):
        busy_s = [float(true_s[:cut].sum()), float(true_s[cut:].sum())]
        records.append(
            {
                "chips": ["1" * cut + "0" * (8 - cut), "0" * cut + "1" * (8 - cut)],
                "busy_s": busy_s, "noise": [0.0, 0.0], "period_cpu_s": max(busy_s),
                "repeat_error": 0.0, "outputs_equal": True,
            }
        )  # fmt: skip
    found, busy = summary(records), busy_summary(records)
    assert found["in place: rank correlation"] == pytest.approx(1.0)
    assert found["in place: error"] == 0.0
    assert busy["busy times of 10: error"] < 0.01 < busy["busy times of 1: error"]
    assert found["best over one process"] > 1.5


def test_page_and_readme_say_what_the_data_give() -> None:
    found = kept(KeptRecords(DATA, "code"))
    for path, text in written(found).items():
        assert path.read_text(encoding="utf-8") == text
    readme = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
    assert sentence(found) in " ".join(readme.split())
