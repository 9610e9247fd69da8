"""A scheduler that dies ends a training with a diagnostic, soon."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.processes import jobs
from mcm_compiler.processes.jobs import open_jobs

pytest.importorskip("distributed")

SCHEDULER = """
from distributed import LocalCluster
import time
if __name__ == "__main__":
    cluster = LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    )
    print(cluster.scheduler.address if False else cluster.scheduler_address, flush=True)
    time.sleep(600)
"""
"""A scheduler with a worker; both die with the process."""


@pytest.fixture
def scheduler(tmp_path):
    script = tmp_path / "scheduler.py"
    script.write_text(SCHEDULER.replace("processes=False", "processes=False, protocol='tcp'"))
    process = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    address = process.stdout.readline().strip()
    assert re.match(r"tcp://", address)
    yield process, address
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["dies", "sleeps"])
def test_a_scheduler_that_is_gone_ends_the_wait(scheduler, number, monkeypatch):
    monkeypatch.setattr(jobs, "PROBE_S", 1.0)
    process, address = scheduler

    def wait_for_it():
        with open_jobs(0, address) as opened:
            assert opened.result(opened.submit(pow, 2, 3)) == 8
            ticket = opened.submit(time.sleep, 60)
            os.kill(process.pid, number)
            opened.result(ticket)

    with pytest.raises(CompileError) as caught:
        wait_for_it()
    (found,) = caught.value.diagnostics
    assert found.code == "MCM-L010"
    assert "--resume" in str(found.hint)
