"""Libraries that are loaded when they are first looked into."""

from __future__ import annotations

import subprocess
import sys

_LOADED = "print('sympy.core' in sys.modules, end=' ')"


def _told(code: str) -> list[str]:
    """What a fresh interpreter prints."""
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return run.stdout.split()


def test_sympy_is_loaded_by_the_first_symbolic_arithmetic() -> None:
    code = (
        "import sys; import mcm_compiler.api; import onnx_ir\n"
        f"shape = onnx_ir.Shape(['batch', 3]); {_LOADED}\n"
        f"print(str(shape[0] + 1).replace(' ', ''), end=' '); {_LOADED}\n"
        "import sympy; print(sympy.Max(2, 3), sympy.__name__)"
    )
    assert _told(code) == ["False", "batch+1", "True", "3", "sympy"]


def test_what_is_loaded_already_and_what_is_not_there_is_let_be() -> None:
    code = """
import sympy
before = sympy
import mcm_compiler
from mcm_compiler.processes.lazy_libraries import load_lazily
load_lazily(["no_such_library", "plistlib"])
import sympy
print(sympy is before)
try:
    import no_such_library
except ModuleNotFoundError:
    print("absent")
import plistlib
print(type(plistlib).__name__ == "module", len(plistlib.dumps({})) > 9)
print(type(plistlib).__name__ == "module")
"""
    assert _told(code) == ["True", "absent", "False", "True", "True"]


def test_numba_is_loaded_without_coverage_which_can_be_imported_afterwards() -> None:
    code = """
import sys
from mcm_compiler.processes.lazy_libraries import load_lazily
load_lazily()
import numba
print("coverage" in sys.modules, type(numba.__spec__.loader).__name__)
import coverage
print(coverage.Coverage.__name__)
"""
    assert _told(code) == ["False", "SourceFileLoader", "Coverage"]
