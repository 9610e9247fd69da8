"""What the second process of a first compile compiles is what `lower` and `simulate` call."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mcm_compiler.processes import warm_up
from mcm_compiler.processes.warm_up import WarmUp

SIGNATURES = """
import json, sys
from mcm_hardware.families.ring import warm_up as component
from mcm_hardware.families.ring.batch.partition_evaluator import evaluate_range
from mcm_hardware.event_graph.graph import event_graph
from mcm_hardware.memory.low_memory_order import low_memory_order
from mcm_hardware.memory.offset_assignment import plan_offsets
from mcm_hardware.event_graph.performance import performance
from mcm_hardware.event_graph.stall_times import stall_times
from mcm_hardware.event_graph.steady_state import steady_state

if sys.argv[1] == "warm":
    component.warm_up()
else:
    from mcm_compiler import CompileOptions, compile_model
    compile_model("zoo:bert-tiny", target="mcm4", options=CompileOptions(level=1))
kernels = [event_graph, low_memory_order, plan_offsets, performance, stall_times, steady_state]
kernels.append(evaluate_range)
print(json.dumps({k.py_func.__name__: sorted(map(str, k.signatures)) for k in kernels}))
"""


def signatures(way: str) -> dict[str, list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", SIGNATURES, way], check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def test_a_compile_finds_every_kernel_of_the_evaluator_warm():
    warm, used = signatures("warm"), signatures("compile")
    assert {name for name, found in used.items() if found} >= {
        "event_graph",
        "evaluate_range",
        "low_memory_order",
        "performance",
        "plan_offsets",
        "stall_times",
        "steady_state",
    }
    for name, found in used.items():
        assert set(found) <= set(warm[name]), name


def compile_anew() -> None:
    from numba import njit

    def successor(number: int) -> int:
        return number + 1

    assert njit(successor)(1) == 2


def test_a_second_process_starts_when_a_kernel_is_compiled(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(warm_up, "usable_cores", lambda: 2)
    with WarmUp() as warm:
        assert warm.process is None
        compile_anew()
        process = warm.process
        assert process is not None
        compile_anew()
        assert warm.process is process
    assert process.returncode is not None  # waited for, so that it is no zombie


def test_no_second_process_on_one_core(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(warm_up, "usable_cores", lambda: 1)
    with WarmUp() as warm:
        compile_anew()
        assert warm.process is None


def test_nothing_is_compiled_ahead_once_the_work_is_over(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(warm_up, "usable_cores", lambda: 2)
    with WarmUp() as warm:
        pass
    compile_anew()
    assert warm.process is None


def test_the_work_goes_on_where_no_process_can_be_started(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(warm_up, "usable_cores", lambda: 2)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with WarmUp() as warm:
        compile_anew()
        assert warm.process is None


def test_the_second_process_says_nothing_and_fails_for_no_component(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    calls: list[str] = []

    class Entry:
        def __init__(self, name: str) -> None:
            self.name = name
            self.point = self

        def load(self) -> Callable[[], None]:
            return self.warm

        def warm(self) -> None:
            calls.append(self.name)
            if self.name == "broken":
                raise RuntimeError(self.name)

    def entries(kind: str) -> list[Entry]:
        assert kind == "warm-up"
        return [Entry("broken"), Entry("whole")]

    def nothing(*_: object) -> None:
        pass

    monkeypatch.setattr(warm_up, "installed_entries", entries)
    monkeypatch.setattr(warm_up.signal, "signal", nothing)
    monkeypatch.setattr(warm_up, "end_with_parent", nothing)
    warm_up.main(0)
    assert calls == ["broken", "whole"]
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it ends a few seconds later")
def test_the_second_process_ends_with_the_first(tmp_path: Path):
    script = (
        "import os, signal\n"
        "from mcm_compiler.processes.warm_up import WarmUp\n"
        "warm = WarmUp()\n"
        "warm.start()\n"
        "print(warm.process.pid, flush=True)\n"
        "input()\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"NUMBA_CACHE_DIR": str(tmp_path), "PATH": ""},
    ) as first:
        assert first.stdout is not None
        second = int(first.stdout.readline())
        first.communicate("\n")
    deadline = time.monotonic() + 60.0
    while alive(second) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(second)


def alive(process: int) -> bool:
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def test_there_is_a_core() -> None:
    assert warm_up.usable_cores() >= 1
