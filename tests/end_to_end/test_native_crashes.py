"""Crashes of native code, through the real command line: one diagnostic, nothing left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mcm_compiler.api import compile_model
from mcm_compiler.options import DEFAULT_PIPELINE, CompileOptions

CRASHING = """
import os, signal, time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from mcm_compiler.pipeline.passes import Pass
from mcm_compiler.registry import register


@register("pass")
@dataclass(frozen=True)
class Crash(Pass):
    name: ClassVar[str] = "crash"
    summary: ClassVar[str] = "do what native code does when it goes wrong"

    how: str = "SIGSEGV"
    only: str = ""

    def run(self, model, context):
        if self.only not in (model.graph.name or ""):
            return
        Path("reached").write_text(str(os.getpid()))
        if self.how == "exit":
            os._exit(3)
        if self.how == "wait":
            time.sleep(60)
        if self.how == "end":
            import atexit
            atexit.register(os.abort)
            return
        os.kill(os.getpid(), getattr(signal, self.how))
"""


def write_model(path, name="net"):
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["h"]), helper.make_node("Exp", ["h"], ["y"])],
        name,
        [value("x", TensorProto.FLOAT, [2, 4])],
        [value("y", TensorProto.FLOAT, [2, 4])],
    )
    opsets = [helper.make_opsetid("", 17)]
    path.parent.mkdir(exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


def write_stft(path):
    """A window without elements, which onnxruntime's STFT divides by."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("STFT", ["x", "step", "window"], ["y"], name="stft")],
        "stft",
        [value("x", TensorProto.FLOAT, [1, 128, 1])],
        [value("y", TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(np.array(1, np.int64), "step"),
            numpy_helper.from_array(np.ones(0, np.float32), "window"),
        ],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


class Workspace:
    """A folder with a model and a plug-in, and a temporary folder that is looked at as well."""

    def __init__(self, folder, warm):
        self.warm = warm
        self.folder = folder / "work"
        self.temporary = folder / "tmp"
        self.folder.mkdir()
        self.temporary.mkdir()
        write_model(self.folder / "net.onnx")
        (self.folder / "crashing.py").write_text(CRASHING)
        self.before = self.files()

    def start(self, *arguments, **environment):
        """The command, in a process of its own."""
        return self._start((sys.executable, "-m", "mcm_compiler", *arguments), environment)

    def _start(self, command, environment):
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=os.environ | {"TMPDIR": str(self.temporary)} | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments, **environment):
        """What came of a command whose process is nobody's concern."""
        process = self._start((self.warm, *arguments), environment)
        stdout, stderr = process.communicate(timeout=120)
        return process.returncode, stdout, stderr

    def files(self):
        names = {path.name for folder in (self.folder, self.temporary) for path in folder.iterdir()}
        return names - {"reached", "__pycache__"}

    def wait_until_reached(self):
        """The number of the process that works."""
        reached = self.folder / "reached"
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not (reached.exists() and reached.read_text()):
            time.sleep(0.02)
        return int(reached.read_text())


@pytest.fixture
def work(tmp_path, warm_mcmc):
    return Workspace(tmp_path, warm_mcmc)


def crash_pass(how, *further):
    arguments = ("--plugin", "crashing.py", "--target", "mcm4", "--passes")
    options = ",".join([f"how={how}", *further])
    return (*arguments, f"crash{{{options}}},{DEFAULT_PIPELINE}")


@pytest.mark.parametrize("how", ["SIGSEGV", "SIGFPE", "SIGABRT", "SIGKILL"])
def test_a_pass_that_crashes_is_named(work, how):
    code, stdout, stderr = work.run("compile", "net.onnx", "-o", "out", *crash_pass(how))
    assert (code, stdout) == (1, "")
    first, at, hint = stderr.splitlines()
    assert first.startswith("error[MCM-U040]: ")
    assert how in first
    assert at == "  at: model 'net.onnx', pass 'crash'"
    assert hint.startswith("  hint: ")
    assert work.files() == work.before


def test_a_crash_as_json(work):
    passes = ("--plugin", "crashing.py", "--passes", "crash{how=SIGSEGV}")
    code, stdout, stderr = work.run("opt", "net.onnx", *passes, "--format", "json")
    assert (code, stderr) == (1, "")
    (found,) = json.loads(stdout)["diagnostics"]
    assert (found["code"], found["at"]) == ("MCM-U040", "model 'net.onnx', pass 'crash'")
    assert work.files() == work.before


def test_a_library_that_exits_is_a_crash(work):
    passes = ("--plugin", "crashing.py", "--passes", "crash{how=exit}")
    code, _, stderr = work.run("opt", "net.onnx", *passes)
    assert code == 1
    assert "exit status 3" in stderr
    assert work.files() == work.before


def test_a_crash_after_all_work_changes_nothing(work):
    code, _, stderr = work.run("compile", "net.onnx", "-o", "out", *crash_pass("end"))
    assert code == 0, stderr
    assert work.files() == work.before | {"out"}


def test_onnxruntime_that_divides_by_zero(work):
    write_stft(work.folder / "net.onnx")
    code, _, stderr = work.run("compile", "net.onnx", "-o", "out", "--target", "mcm4")
    assert code == 1
    assert stderr.count("error[") == 1
    assert "crashed with SIGFPE" in stderr
    assert "model 'net.onnx', pass 'verify', running " in stderr
    assert work.files() == work.before
    options = CompileOptions(passes=DEFAULT_PIPELINE.removesuffix(",verify"))
    compile_model(work.folder / "net.onnx", "mcm4", options, output=work.folder / "out")
    np.savez(work.folder / "x.npz", x=np.ones((1, 128, 1), np.float32))
    for verb in (["check", "out"], ["run", "out", "-i", "x.npz", "-o", "y.npz"]):
        code, _, stderr = work.run(*verb)
        assert code == 1
        assert "crashed with SIGFPE" in stderr
        assert "at: folder 'out', " in stderr
    assert work.files() == work.before | {"out", "x.npz"}


@pytest.mark.parametrize(
    "text",
    [
        "(float[1,1,0,4,5] x, float[1,2,3,3,3] w) => (float[1,2,M,6,7] y) "
        "{ y = ConvTranspose (x, w) }",
        "(float[1,128,1] x, int64 step, float w) => (float[1,M,N,2] y) { y = STFT (x, step, w) }",
    ],
    ids=["ConvTranspose", "STFT"],
)
def test_kernels_that_crash_on_odd_shapes(text, work):
    model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> net ' + text)
    onnx.save(model, work.folder / "net.onnx")
    work.before = work.files()
    code, stdout, stderr = work.run("compile", "net.onnx", "-o", "out", "--target", "mcm4")
    assert code == 1
    assert "error[MCM-U040]" in stderr
    assert "at: model 'net.onnx', " in stderr
    assert "Traceback" not in stdout + stderr
    assert work.files() == work.before


def test_a_crashing_model_fails_alone(work):
    write_model(work.folder / "models" / "a.onnx", "a")
    write_model(work.folder / "models" / "b.onnx", "b")
    write_model(work.folder / "models" / "c.onnx", "c")
    code, stdout, stderr = work.run(
        *("compile", "models", "-o", "out", "--junit", "junit.xml"),
        *crash_pass("SIGSEGV", "only=b"),
    )
    assert code == 1
    assert [line.split()[:2] for line in stdout.splitlines()] == [
        ["ok", "models/a.onnx"],
        ["FAILED", "models/b.onnx"],
        ["ok", "models/c.onnx"],
        ["3", "models:"],
    ]
    assert "error[MCM-U037]: the process that compiled the model ended with signal 11" in stderr
    assert "  at: model 'models/b.onnx', pass 'crash'" in stderr
    assert sorted(os.listdir(work.folder / "out")) == ["a", "c"]
    assert work.files() == work.before | {"models", "out", "junit.xml"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("group", [False, True])
def test_a_signal_to_the_parent_or_the_group_ends_the_child_cleanly(work, number, group):
    process = work.start("compile", "net.onnx", "-o", "out", *crash_pass("wait"))
    child = work.wait_until_reached()
    assert child != process.pid
    (os.killpg if group else os.kill)(process.pid, number)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    line = "interrupted" if number == signal.SIGINT else "interrupted by SIGTERM"
    assert stderr.splitlines() == [line]
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    assert work.files() == work.before


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends orphans")
def test_a_killed_parent_takes_its_child_with_it(work):
    process = work.start("compile", "net.onnx", "-o", "out", *crash_pass("wait"))
    work.wait_until_reached()
    process.kill()
    process.wait()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and work.files() != work.before:
        time.sleep(0.02)
    assert work.files() == work.before
    process.communicate()


def test_without_supervision_the_work_is_done_in_the_first_process(work):
    process = work.start(
        "compile", "net.onnx", "-o", "out", *crash_pass("wait"), MCMC_SUPERVISE="0"
    )
    assert work.wait_until_reached() == process.pid
    process.terminate()
    process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGTERM
    assert work.files() == work.before


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells which processes are alive")
def test_what_a_killed_compile_left_is_removed_by_the_next(work):
    process = work.start(
        "compile", "net.onnx", "-o", "out", *crash_pass("wait"), MCMC_SUPERVISE="0"
    )
    work.wait_until_reached()
    process.kill()
    process.communicate()
    assert [name for name in work.files() if name.startswith(".mcmc-")]
    code, _, stderr = work.run("compile", "net.onnx", "-o", "out", "--target", "mcm4")
    assert code == 0, stderr
    assert work.files() == work.before | {"out"}
