"""A folder of a small compile, and another compile to put in its place."""

from __future__ import annotations

import shutil

import pytest

from mcm_compiler.api import compile_model
from mcm_compiler.options import CompileOptions
from tests.generators.mlp_files import write_network


@pytest.fixture(scope="session")
def two_compiles(tmp_path_factory):
    """Folders of one network on one and on two chips."""
    root = tmp_path_factory.mktemp("viewed")
    write_network(root / "net.onnx", layers=4, width=64)
    for chips in (1, 2):
        options = CompileOptions(dims={"batch": 1}, replicas=1, chips=chips, partitioner="dp")
        compile_model(root / "net.onnx", "mcm4", options, output=root / str(chips))
    return root / "1", root / "2"


@pytest.fixture
def folder(two_compiles, tmp_path):
    """A copy of the first, which a test may change."""
    shutil.copytree(two_compiles[0], tmp_path / "out")
    return tmp_path / "out"
