"""Sharding rules hold for the ops of exported models, with the values that these have there."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

from mcm_compiler.ir.reading.importer import import_onnx
from mcm_passes.parallelism.rules.graph_rules import installed_rules, missing_rules, rules_of

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "data" / "exports"
MODELS = {
    entry["file"].removesuffix(".onnx"): entry
    for entry in json.loads((FOLDER / "manifest.json").read_text(encoding="utf-8"))["models"]
}
DIVIDED = (
    "dynamo_decoder_opset21",
    "dynamo_resnet_opset18",
    "dynamo_spectral_opset20",
    "jax_mixer",
    "keras_bidirectional_lstm",
    "paddle_recogniser",
    "quantised_qdq",
    "torch_gru_opset11",
    "torch_super_resolution_opset11",
    "torch_unet_opset13",
    "torch_vit_opset17",
)


def imported(name):
    entry = MODELS[name]
    shapes = {operand: tuple(shape) for operand, shape in entry["shapes"].items()}
    return import_onnx(FOLDER / entry["file"], entry["dims"], shapes)[0]


@pytest.mark.parametrize("name", DIVIDED)
def test_parts_of_every_op_make_up_the_whole(name, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    ops = importlib.import_module("sharding_examples.model_ops")
    differences, count = [], 0
    for op in ops.divided_ops(imported(name), installed_rules(), seed=0):
        differences += op.differences()
        count += 1
    assert differences == []
    assert count >= 5


@pytest.mark.parametrize("name", sorted(set(MODELS) - set(DIVIDED)))
def test_every_export_has_rules(name):
    model = imported(name)
    assert len(rules_of(model)) == len(model.graph)
    assert all("::" in note.message for note in missing_rules(model))
