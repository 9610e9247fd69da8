"""Settings of the process: an import changes none, and onnxruntime is loaded without telemetry."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SETTINGS = """
import os, sys
{first}
import numba, onnx_ir
before = dict(vars(numba.config)), dict(os.environ), list(sys.meta_path), dict(vars(onnx_ir.serde))
import mcm_compiler, mcm_compiler.api, mcm_compiler.arrays.kernels
from mcm_compiler import compile_model
after = dict(vars(numba.config)), dict(os.environ), list(sys.meta_path), dict(vars(onnx_ir.serde))
print(*(a == b for a, b in zip(before, after)))
"""


def _printed(code: str, **environment: str) -> list[str]:
    clean = {k: v for k, v in os.environ.items() if k != "ORT_DISABLE_TELEMETRY"}
    run = [sys.executable, "-c", code]
    done = subprocess.run(run, env=clean | environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.parametrize("first", ["", "import mcm_compiler"])
def test_an_import_leaves_the_process_as_it_was(first: str) -> None:
    """Whether numba is imported before it or after."""
    assert _printed(SETTINGS.format(first=first)) == ["True"] * 4


def test_kernels_are_compiled_apart_from_a_programs_own_code() -> None:
    """Both for the same function, in one process, each with its own processor."""
    code = """
import numba
from mcm_compiler.arrays.kernels import entry_njit
def total(count):
    return count + 1
own, kernel = numba.njit(total), entry_njit(total)
print(own(2), kernel(2), own.targetctx is kernel.targetctx, numba.njit(kernel.py_func)(3))
"""
    assert _printed(code) == ["3", "3", "False", "4"]


LOADED = """
import os
from mcm_compiler.processes.run_limits import quiet_onnxruntime
import builtins
seen = []
plain = builtins.__import__
def watched(name, *rest, **more):
    if name == "onnxruntime":
        seen.append(os.environ.get("ORT_DISABLE_TELEMETRY"))
    return plain(name, *rest, **more)
builtins.__import__ = watched
quiet_onnxruntime(), quiet_onnxruntime()
print(seen[0], os.environ.get("ORT_DISABLE_TELEMETRY"))
"""


def test_telemetry_is_off_unless_a_user_says_otherwise() -> None:
    assert _printed(LOADED) == ["1", "None"]
    assert _printed(LOADED, ORT_DISABLE_TELEMETRY="0") == ["0", "0"]
