"""Kernels on disk: processes side by side, ways of compiling, sources that change."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from numba.core.caching import IndexDataCacheFile

from mcm_compiler.arrays.kernel_cache import KernelFiles

KERNELS = """\
from mcm_compiler.arrays import kernels


def total(values):
    found = 0.0
    for k in range(len(values)):
        found += values[k]
    return found


@kernels.entry_njit
def twice(values):
    return 2.0 * inner(values)


inner = kernels.{inner}(total)
outer = kernels.{outer}(total)
"""


def _run(code: str, folder: Path) -> str:
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    # Without bytecode: it would not see that a file has changed within a second.
    return subprocess.run(
        [
            sys.executable,
            "-B",
            "-P",
            "-c",
            f"import numpy as np\nvalues = np.array([1.0, 2.5])\n{code}",
        ],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path, "NUMBA_CACHE_DIR": str(folder / "kept")},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


@pytest.mark.parametrize(
    ("inner", "outer"), [("inner_njit", "entry_njit"), ("lean_inner_njit", "lean_njit")]
)
def test_one_function_is_compiled_in_two_ways(tmp_path: Path, inner: str, outer: str):
    """Without a way of their own in the key, Python would follow a pointer to nowhere."""
    (tmp_path / "both.py").write_text(KERNELS.format(inner=inner, outer=outer))
    assert _run("import both; print(both.twice(values))", tmp_path) == "7.0\n"
    for _ in range(2):
        assert _run("import both; print(both.outer(values))", tmp_path) == "3.5\n"
    names = sorted(path.suffix for path in (tmp_path / "kept").rglob("both.total-*"))
    assert names == [".nbc", ".nbc", ".nbi"]


CALLER = """\
from mcm_compiler.arrays.kernels import entry_njit
from pack.other import STEP, added, Point


@entry_njit
def total(values):
    return added(values) + STEP


@entry_njit
def above(point):
    return point.high - point.low
"""

CALLED = """\
from typing import NamedTuple
from mcm_compiler.arrays.kernels import inner_njit

STEP, SCALE = 1.0, 1.0


class Point(NamedTuple):
    low: float
    high: float


@inner_njit
def added(values):
    return SCALE * values.sum()
"""

ASK = """\
from pack.caller import Point, above, total
print(total(values), above(Point(low=1.0, high=3.0)))
"""


CHANGES = {
    "STEP, SCALE = 1.0": ("STEP, SCALE = 2.0", "5.5 2.0"),
    "SCALE = 1.0, 1.0": ("SCALE = 1.0, 2.0", "8.0 2.0"),
    "SCALE * values": ("2.0 * values", "8.0 2.0"),
    "low: float\n    high: float": ("high: float\n    low: float", "4.5 2.0"),
}
"""What is written otherwise in the file that is called, and what comes out then."""


def test_what_has_changed_in_another_file_is_compiled(tmp_path: Path):
    """numba looks at the caller's file, which is as it was."""
    pack = tmp_path / "pack"
    pack.mkdir()
    (pack / "__init__.py").write_text("")
    (pack / "caller.py").write_text(CALLER)
    (pack / "other.py").write_text(CALLED)
    assert _run(ASK, tmp_path) == "4.5 2.0\n"
    kept = sorted((tmp_path / "kept").rglob("*.nbc"))
    assert _run(ASK, tmp_path) == "4.5 2.0\n"
    assert sorted((tmp_path / "kept").rglob("*.nbc")) == kept
    for before, (after, told) in CHANGES.items():
        assert before in CALLED
        (pack / "other.py").write_text(CALLED.replace(before, after))
        assert _run(ASK, tmp_path) == f"{told}\n", after
    # Nothing of before is left.
    assert len(list((tmp_path / "kept").rglob("*.nbc"))) == len(kept)


MANY = """\
import numpy as np
from mcm_compiler.arrays.kernels import entry_njit, inner_njit, lean_njit


@inner_njit
def above(values, least):
    if least > 100.0:
        raise ValueError("least is above 100")
    return values[values > least].sum() + values.max()


@entry_njit
def total(values, least):
    return above(values, least)


@entry_njit
def ordered(values):
    return values @ np.ones(len(values))


@lean_njit
def halvings(count: int) -> int:
    return 0 if count < 2 else 1 + halvings(count // 2)


@entry_njit
def twice(values, least):
    return 2.0 * above(values, least)
"""

USES = """\
import sys
from many import halvings, ordered, total, twice
print(total(values, 2.0), ordered(values), halvings(9), twice(values, 2.0))
try:
    total(values, 101.0)
except ValueError as error:
    print(error)
print(any("scipy.linalg" in name for name in sys.modules))
"""


def test_kept_code_runs_without_what_compiles_it(tmp_path: Path):
    """Sums, products of SciPy, recursion and exceptions; a kernel that is new links a kept one."""
    (tmp_path / "many.py").write_text(MANY)
    answers = "5.0 3.5 3 10.0\nleast is above 100\n"
    assert _run(USES, tmp_path) == f"{answers}True\n"
    kept = _run(USES.replace("ordered, ", "").replace("ordered(values)", "3.5"), tmp_path)
    assert kept == f"{answers}False\n"
    assert _run(USES, tmp_path).startswith(answers)
    # Only one kernel is compiled now, and takes in what was kept of the one that it calls.
    (tmp_path / "more.py").write_text(
        "from mcm_compiler.arrays.kernels import entry_njit\nfrom many import above\n\n\n"
        "@entry_njit\ndef thrice(values):\n    return 3.0 * above(values, 2.0)\n"
    )
    assert _run("import more; print(more.thrice(values))", tmp_path) == "15.0\n"
    assert _run("import more; print(more.thrice(values))", tmp_path) == "15.0\n"


def _key(kind: str, content: str = "") -> tuple[object, ...]:
    return (kind, "processor", (content, "around"), "way", (content, "fields"))


class _Reads(KernelFiles):
    """Reads the index before another process has written it."""

    def _load_index(self) -> dict[object, str]:
        return {}


def test_what_two_processes_write_at_once_is_never_mixed_up(tmp_path: Path):
    KernelFiles(str(tmp_path), "pack.f-1.py311", 1).save(_key("floats"), "code for floats")
    _Reads(str(tmp_path), "pack.f-1.py311", 1).save(_key("integers"), "code for integers")
    files = KernelFiles(str(tmp_path), "pack.f-1.py311", 1)
    assert files.load(_key("integers")) == "code for integers"
    assert files.load(_key("floats")) is None
    files.save(_key("floats"), "code for floats")
    assert files.load(_key("integers")) == "code for integers"
    assert files.load(_key("floats")) == "code for floats"


def test_files_of_another_source_go_with_their_index(tmp_path: Path):
    base = "pack.f[1]-1.py311"
    KernelFiles(str(tmp_path), base, 1).save(_key("floats"), "old")
    KernelFiles(str(tmp_path), base, 1).save(_key("integers"), "old")
    other = KernelFiles(str(tmp_path), "pack.g-1.py311", 1)
    other.save(_key("floats"), "of another function")
    changed = KernelFiles(str(tmp_path), base, 2)
    assert changed.load(_key("floats")) is None
    changed.save(_key("floats"), "new")
    assert changed.load(_key("floats")) == "new"
    assert changed.load(_key("integers")) is None
    assert other.load(_key("floats")) == "of another function"
    assert len(list(tmp_path.glob("pack.f*.nbc"))) == 1


def test_what_has_changed_takes_the_place_of_what_it_was(tmp_path: Path):
    files = KernelFiles(str(tmp_path), "pack.f-1.py311", 1)
    files.save(_key("floats", "before"), "before")
    files.save(_key("integers", "before"), "others")
    files.save(_key("floats", "after"), "after")
    assert files.load(_key("floats", "before")) is None
    assert files.load(_key("floats", "after")) == "after"
    assert files.load(_key("integers", "before")) == "others"
    assert len(list(tmp_path.glob("*.nbc"))) == 2


def test_what_numba_kept_in_its_own_way_is_replaced(tmp_path: Path):
    IndexDataCacheFile(str(tmp_path), "pack.f-1.py311", 1).save(_key("floats")[:3], "numba's")
    KernelFiles(str(tmp_path), "pack.f-1.py311", 1).save(_key("floats"), "ours")
    assert len(list(tmp_path.glob("*.nbc"))) == 1


@pytest.mark.parametrize("gone", ["module", "type"])
def test_an_index_with_a_type_that_moved_to_another_module_is_replaced(
    tmp_path: Path, gone: str, monkeypatch: pytest.MonkeyPatch
):
    module = ModuleType("module_of_a_record")
    record = type("Record", (), {"__module__": module.__name__})
    module.Record = record  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    key = (record, *_key("floats")[1:])
    KernelFiles(str(tmp_path), "pack.f-1.py311", 1).save(key, "old")
    if gone == "module":
        monkeypatch.delitem(sys.modules, module.__name__)
    else:
        del module.Record
    files = KernelFiles(str(tmp_path), "pack.f-1.py311", 1)
    assert files.load(_key("floats")) is None
    files.save(_key("floats"), "new")
    assert files.load(_key("floats")) == "new"
    assert len(list(tmp_path.glob("*.nbc"))) == 1
