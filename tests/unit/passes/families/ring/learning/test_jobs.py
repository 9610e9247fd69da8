"""Work that runs apart is done in full, whatever becomes of the workers."""

from __future__ import annotations

import math
import operator
import os
import signal
import sys
import time

import pytest

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.processes.jobs import MAX_LOSSES, Jobs, open_jobs
from mcm_models.policy.layout import POLICIES, PolicyCard, initial_weights
from mcm_passes.families.ring.learning.partition_policy_trainer import fine_tuned, zero_shot

NUM_JOBS = 6


@pytest.fixture
def checkpoints(tiny, tmp_path) -> list[bytes]:
    """Policies that differ in their random weights."""
    path = tmp_path / "policy.safetensors"
    contents = []
    for seed in range(NUM_JOBS):
        POLICIES.save(path, initial_weights(tiny.layout, seed), PolicyCard(tiny.layout))
        contents.append(path.read_bytes())
    return contents


def scores_of(jobs: Jobs, checkpoints, tiny, problems, meanwhile=lambda: None):
    tickets = [jobs.submit(zero_shot, data, tiny, problems, 0) for data in checkpoints]
    meanwhile()
    return [jobs.result(ticket) for ticket in tickets]


@pytest.fixture
def expected(checkpoints, tiny, problems):
    with open_jobs(0) as jobs:
        scores = scores_of(jobs, checkpoints, tiny, problems)
    assert len({tuple(score.items()) for score in scores}) > 1
    return scores


@pytest.mark.parametrize("workers", [0, 2])
def test_results_come_in_any_order_of_asking(workers):
    with open_jobs(workers) as jobs:
        tickets = [jobs.submit(operator.mul, k, k) for k in range(6)]
        assert [jobs.result(tickets[k]) for k in (5, 0, 3)] == [25, 0, 9]
        assert [jobs.result(tickets[k]) for k in (1, 2, 4)] == [1, 4, 16]


@pytest.mark.parametrize("workers", [0, 1])
def test_what_a_job_raises_is_raised(workers):
    with open_jobs(workers) as jobs:
        ticket = jobs.submit(math.sqrt, -1.0)
        with pytest.raises(ValueError, match="math domain"):
            jobs.result(ticket)


def test_apart_scores_are_the_same_and_a_killed_process_loses_nothing(
    checkpoints, tiny, problems, expected
):
    with open_jobs(2) as jobs:
        worker = jobs.result(jobs.submit(os.getpid))
        assert worker != os.getpid()

        def kill() -> None:
            os.kill(worker, signal.SIGKILL)

        assert scores_of(jobs, checkpoints, tiny, problems, kill) == expected


def test_a_job_that_kills_its_workers_is_given_up(monkeypatch):
    monkeypatch.setattr("mcm_compiler.processes.jobs.MAX_LOSSES", 1)
    with open_jobs(1) as jobs:
        ticket = jobs.submit(os._exit, 3)
        with pytest.raises(CompileError) as caught:
            jobs.result(ticket)
    assert caught.value.diagnostics[0].code == "MCM-L010"
    assert "2 times" in caught.value.diagnostics[0].message
    assert MAX_LOSSES > 1


def test_a_killed_worker_of_a_cluster_loses_nothing(checkpoints, tiny, problems, expected):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
        open_jobs(0, cluster.scheduler_address) as jobs,
    ):
        pids = client.run(os.getpid)
        assert len(pids) == 2

        def kill_one_that_works():
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                busy = [worker for worker, keys in client.processing().items() if keys]
                if busy:
                    os.kill(pids[busy[0]], signal.SIGKILL)
                    return
            pytest.fail("no worker ever worked")

        assert scores_of(jobs, checkpoints, tiny, problems, kill_one_that_works) == expected


def test_a_cluster_without_a_scheduler_is_diagnosed(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("mcm_compiler.processes.jobs.CONNECT_S", 0.2)
    with pytest.raises(CompileError) as caught, open_jobs(0, "tcp://127.0.0.1:9"):
        pass
    assert caught.value.diagnostics[0].code == "MCM-L010"


def test_a_cluster_without_dask_is_diagnosed(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(CompileError) as caught, open_jobs(0, "tcp://127.0.0.1:9"):
        pass
    assert caught.value.diagnostics[0].code == "MCM-L012"


def test_fine_tuning_learns_from_what_it_is_given(checkpoints, tiny, problems):
    model, score = fine_tuned(checkpoints[0], tiny, problems[0], 0)
    assert model == problems[0].model
    assert fine_tuned(checkpoints[0], tiny, problems[0], 0) == (model, score)
    assert score > 0
