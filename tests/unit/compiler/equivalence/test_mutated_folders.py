"""Folders that somebody changed, with all hashes made right again, are refused by structure."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mcm_compiler.api import build_zoo_model, compile_model
from mcm_compiler.artifact.manifest import read_manifest
from mcm_compiler.checking.check import check_folder
from mcm_compiler.checking.structure_step import read_user_model
from mcm_compiler.ir.rewriting.writer import write_model
from mcm_compiler.options import CompileOptions

ROOT = Path(__file__).parents[4]

PASSES = "simplify,fuse,annotate_cost,parallelize,partition,legalize,split,lower,simulate,emit"

FOLDERS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert-tiny{layers=1,hidden=16,intermediate=32,vocab=64,positions=16,seq=8}": ("mcm4", {}),
    "residual-cnn{image_size=16,classes=10,stages=2,blocks=1,width=8}": ("mcm4", {}),
    "stacked-rnn{steps=2,hidden=16,features=8,classes=4}": ("mcm16", {"replicas": 2}),
}
MUTANTS = 20
"""Of each folder."""


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        importlib.import_module("folder_mutations.mutants")
        return importlib.import_module("folder_mutations.verdicts")


@pytest.mark.parametrize("number", range(len(FOLDERS)))
def test_no_mutant_is_accepted(number, tool, tmp_path):
    spec, (target, options) = list(FOLDERS.items())[number]
    mutants = importlib.import_module("folder_mutations.mutants")
    model, folder = tmp_path / "model.onnx", tmp_path / "out"
    write_model(build_zoo_model(spec), model)
    chosen = CompileOptions(**{"passes": PASSES, "level": 0, "replicas": 1, **options})
    compile_model(model, target, chosen, output=folder)
    user = read_user_model(str(model), read_manifest(folder))
    assert tool.refusal(folder, user) is None
    rng, seen = mutants.seeded(number), 0
    while seen < MUTANTS:
        with mutants.mutated(folder, rng) as mutant:
            if mutant is None:
                continue
            refused = tool.refusal(folder, user)
            if refused is None and tool.is_equivalent(folder, model, mutant):
                continue
            seen += 1
            assert refused is not None, mutant
            alone = tool.refusal(folder, None)
            assert alone is not None or mutant.shared_weight, mutant


def test_changed_weight_that_all_share_needs_the_original(tool, tmp_path):
    model, folder = tmp_path / "model.onnx", tmp_path / "out"
    write_model(build_zoo_model(list(FOLDERS)[1]), model)
    compile_model(model, "mcm4", CompileOptions(level=0, replicas=1, inferences=8), output=folder)
    data = min(folder.glob("chip_*.onnx.data"))
    content = bytearray(data.read_bytes())
    content[0] ^= 0x01
    data.write_bytes(content)
    mutants = importlib.import_module("folder_mutations.mutants")
    mutants.repair(folder, data.name)
    alone = check_folder(folder, seeds=(0,))
    assert alone.holds
    told = next(step.detail for step in alone.steps if step.name == "source")
    assert "--model compares with the original" in told
    against = check_folder(folder, model=str(model), seeds=(0,))
    assert not against.holds
    assert {fault.code for fault in against.diagnostics} == {"MCM-V062"}


def test_record_of_the_long_run_has_no_accepted_mutant():
    record = json.loads((ROOT / "tools" / "data" / "folder_mutations.json").read_text())
    assert record["mutants"] >= 2000
    assert record["accepted_wrongly"] == 0
    assert len(record["folders"]) >= 5


def test_record_of_proven_models_is_whole():
    record = json.loads((ROOT / "tools" / "data" / "proven_models.json").read_text())
    families = [row for row in record.values() if isinstance(row, dict) and "compiled" in row]
    assert len(families) >= 7
    assert all(row["proven_wholly"] == row["compiled"] for row in families)
    assert all(row["proven_ops"] == row["ops"] for row in families)
