"""A small compiled folder, and one with two pipelines, that the tests of pages share."""

from __future__ import annotations

import pytest

from mcm_compiler.api import compile_model
from mcm_compiler.artifact.manifest import read_manifest
from mcm_compiler.checking.entry.gate import OpenedFolder
from mcm_compiler.options import CompileOptions
from mcm_compiler.page.contents import Compiled
from tests.generators.mlp_files import write_network


def opened(folder):
    found = OpenedFolder(folder, read_manifest(folder))
    return Compiled(found.report, found)


@pytest.fixture(scope="session")
def chain(tmp_path_factory):
    """Eight layers as one pipeline on four chips."""
    root = tmp_path_factory.mktemp("chain")
    write_network(root / "net.onnx", layers=8, width=256)
    options = CompileOptions(dims={"batch": 1}, replicas=1)
    compile_model(root / "net.onnx", "mcm4", options, output=root / "out")
    return opened(root / "out")


@pytest.fixture(scope="session")
def pair(tmp_path_factory):
    """Four layers as two pipelines of two chips."""
    root = tmp_path_factory.mktemp("pair")
    write_network(root / "net.onnx", layers=4, width=256)
    options = CompileOptions(dims={"batch": 1}, replicas=2, partitioner="dp")
    compile_model(root / "net.onnx", "mcm4", options, output=root / "out")
    return opened(root / "out")
