"""Kernels of an archive: read in place of compiling, and only where they fit their source."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from mcm_compiler.processes.kernel_archive import Archive, archive_bytes, facts_here, member_of

TOOLS = Path(__file__).parents[4] / "tools"

KERNEL = """\
from mcm_compiler.arrays.kernels import entry_njit


@entry_njit
def doubled(x):
    return 2 * x
"""

HARVEST = """\
import mcm_compiler, pathlib, sys
from pack.kernels import doubled
assert doubled(3) == 6
from wheel_kernels.harvest import harvested, made_here
from mcm_compiler.processes.kernel_archive import archive_bytes
made_for = made_here()
found = harvested([pathlib.Path("pack")], made_for)
pathlib.Path("kernels.bin").write_bytes(archive_bytes(made_for, found))
"""

USE = """\
import json, pathlib
from mcm_compiler.processes import kernel_archive
state = kernel_archive.kernel_state(pathlib.Path("kernels.bin").resolve())
kernel_archive.kernel_state = lambda: state
from numba.core import event
compiled = []


class Listener(event.Listener):
    def on_start(self, event):
        compiled.append(1)

    def on_end(self, event):
        pass


with event.install_listener("numba:compile", Listener()):
    from pack.kernels import doubled
    value = doubled(4)
print(json.dumps([state.reason, value, len(compiled)]))
"""


def run(code, folder):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
    paths = os.pathsep.join([str(folder), str(TOOLS), clean.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=folder,
        env=clean | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_kernel_is_read_and_a_changed_source_compiled(tmp_path):
    pack = tmp_path / "pack"
    pack.mkdir()
    (pack / "__init__.py").write_text("")
    (pack / "kernels.py").write_text(KERNEL)
    run(HARVEST, tmp_path)
    cache = pack / "__pycache__"
    for path in cache.glob("*.nb*"):
        path.unlink()
    assert json.loads(run(USE, tmp_path)) == ["", 8, 0]
    assert not list(cache.glob("*.nb*"))
    # The cache takes over.
    (pack / "kernels.py").write_text(KERNEL.replace("2 * x", "5 * x"))
    reason, value, compiled = json.loads(run(USE, tmp_path))
    assert (reason, value) == ("", 20)
    assert compiled == 1
    assert list(cache.glob("*.nbc"))


def test_kernels_are_found_by_member_and_key(tmp_path):
    functions = {
        "pack/a.f-1.py311.aa": {("k", 1): b"code"},
        "pack/b.g-2.py311.bb": {("k", 1): b"other"},
    }
    made_for = dict.fromkeys(facts_here(), "x")
    data = archive_bytes(made_for, functions)
    assert data == archive_bytes(made_for, dict(reversed(functions.items())))
    path = tmp_path / "kernels.bin"
    path.write_bytes(data)
    archive = Archive(path)
    assert archive.header == made_for | {"kernels": 2}
    assert archive.kernel("pack/a.f-1.py311.aa", ("k", 1)) == b"code"
    assert archive.kernel("pack/b.g-2.py311.bb", ("k", 1)) == b"other"
    assert archive.kernel("pack/a.f-1.py311.ab", ("k", 1)) is None
    assert archive.kernel("pack/a.f-1.py311.aa", ("k", 2)) is None


def test_members_say_place_and_content():
    assert member_of("pack.sub.a", "a.f-1.py311", b"\xab") == "pack/sub/a.f-1.py311.ab"
    assert member_of("a", "a.f-1.py311", (1.5, 20)) == "a.f-1.py311."
