"""A compile keeps to itself: no network, no files elsewhere, no need of a home, and none of an
installation that it may write."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import onnx
import pytest

NET = (
    '<ir_version: 8, opset_import: ["" : 17]> net (float[2,4] x) => (float[2,4] y)'
    "{ h = Relu(x) y = Exp(h) }"
)
STRANGER = 54_321
"""A number that no user of the machine has."""

WRITING = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND")
CHANGING = re.compile(
    r"\b(mkdir|rename|unlink|rmdir|link|symlink|truncate|creat|mknod|chmod|chown|utime)\w*\("
)
PATHS = re.compile(r'(?:(?:AT_FDCWD|\d+)<(?P<base>[^>]*)>, )?"(?P<path>[^"]*)"')


@pytest.fixture
def work():
    """A folder that every user can reach, with one for output and one for temporary files."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    for name in ("work", "tmp"):
        (folder / name).mkdir()
    onnx.save(onnx.parser.parse_model(NET), folder / "work" / "net.onnx")
    yield folder
    shutil.rmtree(folder)


def tracer(log):
    strace = shutil.which("strace")
    if strace is None:
        # .ci/run installs it.
        assert not os.environ.get("MCMC_CI"), "strace is missing"
        pytest.skip("strace is not installed")
    calls = "trace=%network,%file,creat,ftruncate"
    return [strace, "-f", "-y", "-qq", "-s", "4096", "-e", calls, "-o", str(log)]


def compile_command(*options):
    return [sys.executable, "-P", "-m", "mcm_compiler", "compile", "net.onnx", "--target", "mcm4",
            "-o", "out", *options]  # fmt: skip


def run(command, folder, **environment):
    kept = {k: v for k, v in os.environ.items() if k in ("PATH", "PYTHONPATH", "LANG")}
    done = subprocess.run(
        command,
        cwd=folder / "work",
        env=kept | {"TMPDIR": str(folder / "tmp")} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def changes_elsewhere(log, folder):
    """Successful calls that open or change a file outside of `folder`, devices left out."""
    found = []
    for line in log.read_text().splitlines():
        if " = -1 " in line or "unfinished" in line:
            continue
        if not (CHANGING.search(line) or ("open" in line and WRITING.search(line))):
            continue
        # A probe of numba: a file without a name, into which nothing is written.
        if "O_TMPFILE" in line:
            continue
        for match in PATHS.finditer(line):
            path = os.path.join(match["base"] or str(folder / "work"), match["path"])
            if not path.startswith((f"{folder}/", "/dev/", "/proc/self/")):
                found.append(line)
    return found


def network(log):
    """Calls that open a socket, other than a pair within the process."""
    return [
        line for line in log.read_text().splitlines() if re.search(r"\b(socket|connect)\(", line)
    ]


def test_a_compile_opens_no_socket_and_writes_nothing_elsewhere(work):
    home = work / "home"
    home.mkdir()
    # Kernels and bytecode are there then, as after any first compile.
    run(compile_command(), work, HOME=str(home))
    shutil.rmtree(work / "work" / "out")
    log = work / "calls.txt"
    run([*tracer(log), *compile_command()], work, HOME=str(home))
    assert "openat" in log.read_text()
    assert network(log) == []
    assert changes_elsewhere(log, work) == []
    assert sorted(os.listdir(work / "work")) == ["net.onnx", "out"]
    assert os.listdir(work / "tmp") == os.listdir(home) == []


def test_the_trace_would_show_telemetry(work):
    """The same traces are not empty where a user has allowed what is forbidden otherwise."""
    home = work / "home"
    home.mkdir()
    log = work / "calls.txt"
    code = (
        "import mcm_compiler, onnx; from mcm_compiler.execution.runner import open_session;"
        "open_session(onnx.load('net.onnx'))"
    )
    command = [*tracer(log), sys.executable, "-P", "-c", code]
    run(command, work, HOME=str(home), ORT_DISABLE_TELEMETRY="0")
    assert os.listdir(home) != []


ONE_KERNEL = """
import numpy as np
from mcm_compiler.placements.compiled_rules import copies_of
units, users = np.zeros(1, np.int32), np.zeros(2, np.int64)
copies_of(units, users, users, units, 1)
"""


def test_any_user_without_a_home_works_with_an_installation_that_cannot_be_written(work):
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can become another user")
    for name in ("work", "tmp"):
        os.chown(work / name, STRANGER, STRANGER)
    package = Path(sys.modules["mcm_compiler"].__file__).parent
    assert not package.stat().st_mode & stat.S_IWOTH
    # The interpreter may lie below root's home: all may be read, nothing may be written.
    stranger = [
        "setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups",
        "--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search",
    ]  # fmt: skip
    kernels = work / "tmp" / f".mcmc-kernels-{STRANGER}"
    # One kernel is as good as all, and takes less time.
    python = [*stranger, sys.executable, "-P"]
    run([*python, "-c", ONE_KERNEL], work)
    assert os.listdir(work / "tmp") == [kernels.name]
    assert stat.S_IMODE(kernels.stat().st_mode) == 0o700
    assert kernels.stat().st_uid == STRANGER
    compiled = {path for path in kernels.rglob("*.nbc") if path.is_file()}
    assert compiled
    # They are found again, and nothing is compiled anew.
    run([*python, "-c", ONE_KERNEL], work)
    passes = ("--passes", "simplify,fuse,annotate_cost", "-o", "out.onnx")
    run([*python, "-m", "mcm_compiler", "opt", "net.onnx", "--target", "mcm4", *passes], work)
    assert sorted(os.listdir(work / "work")) == ["net.onnx", "out.onnx"]
    assert os.listdir(work / "tmp") == [kernels.name]
    assert {path for path in kernels.rglob("*.nbc") if path.is_file()} == compiled
