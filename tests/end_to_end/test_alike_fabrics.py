"""Chips of a ring of fabrics that are laid out alike: one mapping, and names of their own."""

from __future__ import annotations

import json

from mcm_compiler.api import compile_model
from mcm_compiler.artifact import layout
from mcm_compiler.checking.check import check_folder
from mcm_compiler.options import CompileOptions
from tests.generators.mlp_files import write_network

LAYERS = 4


def test_a_layer_a_chip_is_mapped_once_and_holds(tmp_path):
    write_network(tmp_path / "model.onnx", LAYERS)
    rows = "".join(f"fc{layer},{layer}\n" for layer in range(LAYERS))
    (tmp_path / "chips.csv").write_text(f"name,chip\n{rows}")
    options = CompileOptions(
        dims={"batch": 4}, level=0, replicas=1, assignment=str(tmp_path / "chips.csv")
    )
    folder = tmp_path / "out"
    compile_model(str(tmp_path / "model.onnx"), "mcm36-fabric", options, output=folder)
    assert len(list(folder.glob(layout.MAPPING_FILES))) == 1
    program = json.loads((folder / layout.PROGRAM).read_text())
    weights = [chip["buffers"][0]["name"].partition(":")[0] for chip in program["chips"]]
    assert weights == [f"fc{layer}" for layer in range(LAYERS)]
    assert check_folder(folder).holds
