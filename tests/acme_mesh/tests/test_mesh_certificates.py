"""Certificates of a mesh that somebody changed: the machine in them is untrusted input."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from safetensors.numpy import load_file, save_file

from mcm_compiler.api import compile_model
from mcm_compiler.certificate.files import read_certificate
from mcm_compiler.checking.check import check_folder
from mcm_compiler.components.target_loading import load_target
from mcm_compiler.machines.machine import same_machine
from mcm_compiler.options import CompileOptions
from tools.figure_mutations import rehash

ARRAYS = "certificate.safetensors"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mesh") / "out"
    options = CompileOptions(level=1, replicas=1)
    compile_model("zoo:bert-tiny", "acme-mesh16", options, output=folder)
    return folder


def test_the_machine_is_read_as_it_was_written(compiled: Path) -> None:
    machine = read_certificate(compiled).problem.machine
    assert same_machine(machine, load_target("acme-mesh16").machine)


@pytest.mark.parametrize("seed", range(12))
def test_no_other_machine_gets_through(compiled: Path, tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    folder = shutil.copytree(compiled, tmp_path / "out")
    arrays = load_file(folder / ARRAYS)
    name = draw.choice(sorted(n for n in arrays if n.startswith(("machine.", "channel."))))
    changed = np.array(arrays[name])
    at = draw.randrange(changed.size)
    if changed.dtype == np.bool_:
        changed[at] = not changed[at]
    elif draw.random() < 0.3:
        changed = changed[:-1]
    else:
        choices = [-1, 0, 1, 7, 1e9] if changed.dtype.kind == "f" else [-1, 0, 1, 7, 2**31 - 1]
        changed[at] = draw.choice([value for value in choices if value != changed[at]])
    save_file({**arrays, name: changed}, folder / ARRAYS)
    rehash(folder)
    found = check_folder(folder, seeds=(0,), without=("equality",))
    assert not found.holds, name
    assert {d.code for d in found.diagnostics} <= {"MCM-A020", "MCM-V070", "MCM-V073"}


MASKED = """<ir_version: 8, opset_import: ["" : 17]>
m (float[2,2048,256] x, int64[2,256] mask) => (float[2,2048,256] y) <int64[1] one = {1}> {
    size = Constant <value_ints = [256, 256]> ()
    w = ConstantOfShape <value = float[1] {0.125}> (size)
    wide = Unsqueeze (mask, one)
    scale = CHAIN
    p0 = MatMul (x, w)
    s0 = Mul (p0, scale)
    p1 = MatMul (s0, w)
    s1 = Mul (p1, scale)
    p2 = MatMul (s1, w)
    y = Add (p2, scale)
}"""


@pytest.mark.parametrize("chips", [(5, 0, 1), (2, 1, 0)])
@pytest.mark.parametrize("chain", ["Cast <to = 1> (wide)", "Cast <to = 1> (n) n = Neg (wide)"])
def test_a_copy_whose_chip_runs_before_that_of_its_original(tmp_path, chips, chain):
    """The lowest chip has the original, which on a mesh may be the last that runs."""
    first, _, behind = chain.partition(" n = ")
    text = MASKED.replace("    scale = CHAIN", f"{behind and f'n = {behind}'} scale = {first}")
    proto = onnx.parser.parse_model(text)
    for node in proto.graph.node:
        node.name = node.output[0]
    pins = [(f"p{k}", chip) for k, chip in enumerate(chips)]
    options = CompileOptions(level=0, replicas=1, pins=tuple(pins))
    onnx.save(proto, tmp_path / "m.onnx")
    compile_model(tmp_path / "m.onnx", "acme-mesh16", options, output=tmp_path / "out")
    copies = read_certificate(tmp_path / "out").copies
    assert {chip for _, _, chip in copies} == {*chips} - {min(chips)}
    report = check_folder(tmp_path / "out", model=tmp_path / "m.onnx")
    assert report.holds, report.diagnostics
