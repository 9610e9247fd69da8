"""Times of kernels from busy times of chips."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.measuring.busy_times import (
    BUSY_SUMS,
    BusyFile,
    ChipBusy,
    Prior,
    read_busy,
    times_of_busy,
    updated_times,
)

KERNELS = 40


def machine(seed: int) -> tuple[np.ndarray, list[str], np.ndarray]:
    """Prior and true times of kernels whose kinds are off by factors, all by 7."""
    rng = np.random.default_rng(seed)
    prior_s = rng.lognormal(-10, 1, KERNELS)
    kinds = ["Conv", "MatMul", "Add", "Softmax"] * (KERNELS // 4)
    factor = dict(zip(kinds, rng.lognormal(0, 0.4, 4), strict=False))
    own = rng.lognormal(0, 0.2, KERNELS)
    return prior_s, kinds, 7 * prior_s * own * np.array([factor[kind] for kind in kinds])


def cuts(seed: int, partitions: int) -> np.ndarray:
    """Two chips of each partition."""
    ends = np.random.default_rng(seed).integers(8, KERNELS - 8, partitions)
    first = np.arange(KERNELS) < ends[:, None]
    return np.stack([first, ~first], axis=1).reshape(-1, KERNELS).astype(float)


def errors(partitions: int) -> float:
    """Median error of predicted periods of other partitions."""
    found: list[float] = []
    for seed in range(20):
        prior_s, kinds, true_s = machine(seed)
        counts = cuts(seed, partitions)
        noise = np.full(len(counts), 0.01)
        times_s, _ = updated_times(prior_s, kinds, counts, counts @ true_s, noise)
        others = cuts(seed + 100, 30)
        predicted_s, real_s = ((others @ each).reshape(-1, 2).max(1) for each in (times_s, true_s))
        found += list(abs(predicted_s / real_s - 1))
    return float(np.median(found))


def test_periods_are_predicted_better_with_each_partition():
    one, three, ten = errors(1), errors(3), errors(10)
    assert one < 0.07
    assert ten < three < one
    assert ten < 0.02


def test_sums_come_out_as_measured_and_what_is_known_is_more_certain():
    prior_s, kinds, true_s = machine(0)
    counts = cuts(0, 1)
    busy_s = counts @ true_s
    times_s, covariance = updated_times(prior_s, kinds, counts, busy_s, np.zeros(2))
    assert counts @ times_s == pytest.approx(busy_s, rel=0.01)
    alone = np.eye(KERNELS)[:1]
    _, known = updated_times(prior_s, kinds, alone, alone @ true_s, np.zeros(1))
    assert known[0, 0] < 0.05**2 * known[1, 1]
    assert np.all(np.diag(covariance) > 0)


def test_no_kernel_takes_a_negative_time():
    prior_s = np.array([1.0, 1.0])
    counts = np.array([[1.0, 1.0], [1.0, 0.0]])
    times_s, _ = updated_times(prior_s, ["a", "a"], counts, np.array([1.0, 1.5]), np.zeros(2))
    assert np.all(times_s > 0)


def busy_file() -> BusyFile:
    kernels = {"a": Prior(1.0, "Conv"), "b": Prior(2.0, "Conv"), "free": Prior(0.0, "Reshape")}
    chips = (ChipBusy(0, 3.0, 0.01, {"a": 1}), ChipBusy(1, 12.0, 0.01, {"b": 2, "free": 1}))
    return BusyFile("0" * 64, {"cpu": "x"}, 120, kernels, chips)


def test_files_of_several_runs_give_one_table(tmp_path: Path):
    path = tmp_path / "busy.json"
    path.write_text(json.dumps(busy_file().to_dict()))
    read = read_busy(path)
    assert read == busy_file()
    times = {one.kernel: one for one in times_of_busy([read, read])}
    assert times.keys() == {"a", "b"}
    assert (times["a"].how, times["a"].count) == (BUSY_SUMS, 240)
    assert times["a"].seconds == pytest.approx(3.0, rel=0.01)
    assert times["b"].seconds == pytest.approx(6.0, rel=0.01)


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("kernels", {}, "does not list the kernel 'a'"),
        ("chips", [], "no chip with a kernel"),
        ("inferences", 0, "inferences"),
        ("schema_version", 2, "schema_version"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, field: str, value: object, why: str):
    path = tmp_path / "busy.json"
    path.write_text(json.dumps(busy_file().to_dict() | {field: value}))
    with pytest.raises(CompileError, match=why) as refused:
        read_busy(path)
    assert refused.value.diagnostics[0].code == "MCM-C020"
