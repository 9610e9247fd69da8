"""Runs in onnxruntime that would never end, or take all memory."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from onnx import parser

from mcm_compiler.api import compile_model
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.execution.runner import RunStoppedError, open_session, run_session
from mcm_compiler.processes import run_limits
from mcm_compiler.processes.run_limits import RunWatch, watched_run

HEADER = '<ir_version: 10, opset_import: ["" : 17]> '


def test_a_loop_without_end_is_stopped(monkeypatch):
    monkeypatch.setattr(run_limits, "MAX_RUN_S", 0.3)
    model = parser.parse_model(
        HEADER + "g (float[1] x, bool go, int64 n) => (float[1] y) {"
        " y = Loop (n, go, x) <body = b (int64 i, bool c, float[1] s) => (bool d, float[1] t)"
        " { d = Identity (c) t = Tanh (s) }> }"
    )
    feeds = {"x": np.ones(1, np.float32), "go": np.array(True), "n": np.array(2**62)}
    with pytest.raises(CompileError) as caught:
        run_session(open_session(model), feeds, place="loop.onnx")
    (fault,) = caught.value.diagnostics
    assert fault.code == "MCM-V002"
    assert "stopped after 0.3 s of computing" in fault.message
    assert isinstance(caught.value, RunStoppedError)


def test_large_models_have_more_time():
    with watched_run() as small, watched_run(1 << 30) as large:
        assert small.max_s < 10 < large.max_s


def test_no_other_inputs_are_tried_after_a_run_without_end(monkeypatch, tmp_path):
    """Shapes are learnt from one run and equality is given up after one."""
    monkeypatch.setattr(run_limits, "MAX_RUN_S", 0.3)
    stopped = []

    class Watch(RunWatch):
        def end(self):
            stopped.append(self.overdue)
            super().end()

    monkeypatch.setattr(run_limits, "RunWatch", Watch)
    model = parser.parse_model(
        HEADER + "g (float[1] x, bool flag, int64 k) => (float[m] y)"
        " <int64 count = {4611686018427387904}> {"
        " s = Loop (count, , x) <body = b (int64 i, bool c, float[1] s) => (bool d, float[1] t)"
        " { d = Identity (c) t = Tanh (s) }> r = NonZero (s) q = Squeeze (r)"
        " y = Cast <to = 1> (q) }"
    )
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    result = compile_model(path, "mcm4", output=tmp_path / "out")
    assert stopped == [True, True]
    assert [d.code for d in result.diagnostics if d.code == "MCM-V021"] == ["MCM-V021"]


@pytest.mark.skipif(sys.platform != "linux", reason="address spaces are bounded on Linux only")
def test_memory_that_the_file_does_not_tell(monkeypatch):
    import resource

    monkeypatch.setattr(run_limits, "MAX_RUN_GROWTH_BYTES", 1 << 30)
    model = parser.parse_model(
        HEADER + "g (float[1] x, int64[1] n) => (float[m] y) { y = Expand (x, n) }"
    )
    session = open_session(model)
    before = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(CompileError) as caught:
        run_session(session, {"x": np.ones(1, np.float32), "n": np.array([2**29])})
    assert caught.value.diagnostics[0].code == "MCM-V002"
    assert resource.getrlimit(resource.RLIMIT_AS) == before
    small = run_session(session, {"x": np.ones(1, np.float32), "n": np.array([3])})
    assert small["y"].tolist() == [1, 1, 1]


def test_a_run_takes_no_memory_that_the_machine_does_not_have(monkeypatch, tmp_path):
    """A process that the system kills tells nothing; a run that fails does."""
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 1048576 kB\nMemAvailable: 65536 kB\n", encoding="ascii")
    monkeypatch.setattr(run_limits, "_MEMINFO", meminfo)
    assert run_limits.free_memory_bytes() == 64 << 20
    model = parser.parse_model(
        HEADER + "g (int64[1] n) => (float[m] y) { y = ConstantOfShape (n) }"
    )
    session = open_session(model)
    run_session(session, {"n": np.array([1 << 20])})
    with pytest.raises(CompileError, match="MCM-V002"):
        run_session(session, {"n": np.array([1 << 28])})


def test_memory_of_a_container_is_its_limit_less_what_is_no_cache(monkeypatch, tmp_path):
    limit, stat = tmp_path / "max", tmp_path / "stat"
    stat.write_text("anon 1000\nfile 5000\n", encoding="ascii")
    monkeypatch.setattr(run_limits, "_MEMINFO", tmp_path / "none")
    monkeypatch.setattr(run_limits, "_GROUPS", ((limit, stat, "anon"),))
    for text, free in (("6000", 5000), ("500", 0), ("max", float("inf"))):
        limit.write_text(text, encoding="ascii")
        assert run_limits.free_memory_bytes() == free
