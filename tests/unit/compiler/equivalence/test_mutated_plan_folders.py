"""Folders of plans that somebody changed, with all hashes made right, are refused by structure."""

from __future__ import annotations

import importlib
from pathlib import Path

from click.testing import CliRunner

from mcm_compiler.api import build_zoo_model, compile_model
from mcm_compiler.artifact.chain import run_chain
from mcm_compiler.artifact.manifest import read_manifest
from mcm_compiler.checking.entry.gate import open_folder
from mcm_compiler.checking.structure_step import prove_folder, read_user_model
from mcm_compiler.cli.main import cli
from mcm_compiler.execution.inputs import random_inputs
from mcm_compiler.execution.runner import same_bits
from mcm_compiler.graph.map_types import load_model
from mcm_compiler.ir.rewriting.writer import write_model
from mcm_compiler.options import CompileOptions

EXACT = ("--planner", "auto-map")
ROOT = Path(__file__).parents[4]

PASSES = (
    'apply_plan{file="%s"},simplify,fuse,annotate_cost,parallelize,partition,legalize,split,lower,'
    "simulate,emit"
)

MODEL = "bert-tiny{layers=1,hidden=16,intermediate=32,vocab=64,positions=16,seq=8}"

MUTANTS = 12


def test_no_mutant_of_a_divided_model_is_accepted(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    mutants = importlib.import_module("folder_mutations.mutants")
    verdicts = importlib.import_module("folder_mutations.verdicts")
    model, plan, folder = tmp_path / "model.onnx", tmp_path / "plan.json", tmp_path / "out"
    write_model(build_zoo_model(MODEL), model)
    asked = ["--target", "mcm4", "--operator", "2", *EXACT, "-o", str(plan)]
    made = CliRunner().invoke(cli, ["parallelize", str(model), *asked])
    assert made.exit_code == 0, made.output
    options = CompileOptions(passes=PASSES % plan, level=0, replicas=1)
    compile_model(model, "mcm4", options, output=folder)
    manifest = read_manifest(folder)
    user = read_user_model(str(model), manifest)
    proof = prove_folder(open_folder(folder), user)
    assert proof.whole
    assert manifest.unfollowed_passes == ("apply_plan",)
    reference = load_model(model)
    outputs = [value.name or "" for value in reference.graph.outputs]
    batches = [random_inputs(reference, seed) for seed in range(4)]
    chips = [chip.chip for chip in manifest.chips]

    def computed():
        return run_chain(folder, chips, read_manifest(folder).wires, outputs, batches)

    expected, rng, seen = computed(), mutants.seeded(0), 0
    while seen < MUTANTS:
        with mutants.mutated(folder, rng) as mutant:
            if mutant is None:
                continue
            seen += 1
            if verdicts.refusal(folder, user) is not None:
                continue
            # What is accepted computes the same: an attribute's default, or terms of a sum
            # in another order.
            assert all(
                same_bits(left[name], right[name])
                for left, right in zip(expected, computed(), strict=True)
                for name in outputs
            ), mutant
