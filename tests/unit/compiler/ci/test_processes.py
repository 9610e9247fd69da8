"""Several processes: order, deaths, and an end in the middle."""

from __future__ import annotations

import time
from pathlib import Path

from mcm_compiler.ci.processes import run_in_processes
from tests.generators.job_examples import lost, nothing, work


def test_results_come_in_the_order_of_the_jobs() -> None:
    jobs = ["slow:0", "a", "b", "c", "d"]
    assert list(run_in_processes(jobs, work, lost, nothing, 2)) == [f"{job} done" for job in jobs]


def test_a_process_that_dies_costs_one_job() -> None:
    jobs = ["a", "die:1", "b", "die:2", "c"]
    assert list(run_in_processes(jobs, work, lost, nothing, 1)) == [
        "a done",
        "die:1 lost with 7",
        "b done",
        "die:2 lost with 7",
        "c done",
    ]


def test_a_crash_costs_one_job_tells_its_place_and_leaves_nothing(tmp_path: Path) -> None:
    job = f"crash:{tmp_path}"
    told: list[tuple[int, tuple[str, ...]]] = []
    results = run_in_processes(
        ["a", job, "b"],
        work,
        lost,
        nothing,
        1,
        lambda index, words: told.append((index, words.steps)),
    )
    assert list(results) == ["a done", f"{job} lost with -11 in model {job}, pass 'x'", "b done"]
    assert list(tmp_path.iterdir()) == []
    assert (1, (f"model {job}", "pass 'x'")) in told


def test_an_early_end_lets_processes_clean_up(tmp_path: Path) -> None:
    half = tmp_path / "half"
    results = run_in_processes(["a", f"hang:{half}"], work, lost, nothing, 1)
    assert next(results) == "a done"
    while not half.exists():
        time.sleep(0.01)
    results.close()
    assert not half.exists()
