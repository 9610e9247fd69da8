"""Shared pieces of the end-to-end tests."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mcm_compiler.api import compile_model
from mcm_compiler.options import CompileOptions


@pytest.fixture
def workspace(tmp_path):
    """A folder that is gone right after the test: full-size models would fill the disk."""
    yield tmp_path
    shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.fixture
def compile_to(workspace):
    """Compiles a model into a folder of the workspace and returns the result."""

    def run(model, target="mcm36", name="out", force=False, **options):
        return compile_model(
            model,
            target,
            CompileOptions(**options),
            output=Path(workspace) / name,
            force=force,
        )

    return run
