"""The benchmark scripts take the shared options, and their harness counts right."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).parents[3] / "tools" / "bench"
SCRIPTS = sorted(BENCH.glob("*.py"))

HELP_OF_ALL = """\
import contextlib, io, json, runpy, sys
shown = {}
for path in sys.argv[1:]:
    sys.argv, status = [path, "--help"], None
    with contextlib.redirect_stdout(io.StringIO()) as text:
        try:
            runpy.run_path(path, run_name="__main__")
        except SystemExit as leaving:
            status = leaving.code
    shown[path] = [status, text.getvalue()]
print(json.dumps(shown))
"""
"""Runs each script with `--help`, all in one process, which imports what they share once."""

SMAPS = """\
55d0c0000000-55d0c0100000 r-xp 00000000 08:01 131 /usr/bin/python3.11
Size:               1024 kB
Rss:                 100 kB
7f0000000000-7f0050000000 r--s 00000000 08:01 132 /tmp/bench dir/weights.data
Size:            1310720 kB
Rss:             1300000 kB
7f0050000000-7f0050001000 r--s 00000000 08:01 133 /tmp/bench dir/.mcmc-x/chip.data (deleted)
Rss:                4000 kB
7f0060000000-7f0060001000 rw-p 00000000 00:00 0
Rss:                  20 kB
7f0070000000-7f0070001000 rw-p 00000000 00:00 0          [heap]
Rss:                   3 kB
"""


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module


def test_there_are_scripts() -> None:
    assert "compile_speed.py" in {script.name for script in SCRIPTS}


def test_every_script_takes_json_and_quick() -> None:
    command = [sys.executable, "-c", HELP_OF_ALL, *map(str, SCRIPTS)]
    variables = {**os.environ, "PYTHONPATH": str(BENCH)}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    for script, (status, shown) in json.loads(done.stdout).items():
        assert status == 0, script
        assert "--json" in shown, script
        assert "--quick" in shown, script


def test_mapped_weights_do_not_count(harness: Any) -> None:
    resident_beyond = harness("harness.children").resident_beyond
    assert resident_beyond(SMAPS, "/tmp/bench dir/") == (100 + 20 + 3) * 1024
    assert resident_beyond(SMAPS, "/elsewhere/") == (100 + 1300000 + 4000 + 20 + 3) * 1024


def test_a_child_is_measured(harness: Any, tmp_path: Path) -> None:
    children = harness("harness.children")
    program = "import time; held = bytearray(64 << 20); print(len(held)); time.sleep(0.2)"
    child = children.run_child([sys.executable, "-c", program], beyond=tmp_path)
    assert child.stdout == f"{64 << 20}\n"
    assert child.seconds >= 0.2
    assert child.peak_rss_bytes > 64 << 20
    assert child.peak_beyond_bytes > 64 << 20


def test_the_memory_of_a_child_of_the_child_counts(harness: Any, tmp_path: Path) -> None:
    children = harness("harness.children")
    program = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    held = bytearray(64 << 20); time.sleep(0.2); os._exit(0)\n"
        "os.wait()"
    )
    child = children.run_child([sys.executable, "-c", program], beyond=tmp_path)
    assert child.peak_rss_bytes > 64 << 20
    assert child.peak_beyond_bytes > 64 << 20


def test_a_process_tree_goes_down_to_grandchildren(harness: Any) -> None:
    children = harness("harness.children")
    inner = "import time; print('up', flush=True); time.sleep(60)"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    outer = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert outer.stdout is not None
    outer.stdout.readline()
    tree = children.process_tree(outer.pid)
    assert tree[0] == outer.pid
    assert len(tree) == 2
    os.kill(tree[1], signal.SIGKILL)
    outer.communicate()
    assert children.process_tree(outer.pid) == [outer.pid]


def test_a_failing_child_tells_why(harness: Any) -> None:
    children = harness("harness.children")
    with pytest.raises(children.ChildFailedError, match=r"exits with 3\nno luck"):
        children.run_child(
            [sys.executable, "-c", "import sys; print('no luck', file=sys.stderr); sys.exit(3)"]
        )


def test_bars_in_json(harness: Any) -> None:
    bars = harness("harness.bars")
    fast = bars.median_bar("fast_s", [3.0, 1.0, 2.0], 2.5)
    even = bars.median_bar("even_s", [2.5], 2.5)
    many = bars.median_bar("many_per_s", [9.0], 8.0, "above")
    data = json.loads(bars.as_json([fast, even, many], quick=True))
    assert data["bars"]["fast_s"] == {
        "value": 2.0,
        "bar": 2.5,
        "holds": True,
        "holds_when": "below",
        "samples": [3.0, 1.0, 2.0],
    }
    assert not data["bars"]["even_s"]["holds"]
    assert data["bars"]["many_per_s"]["holds"]
    assert data["context"]["quick"] is True
    assert data["context"]["versions"]["onnxruntime"]
