"""Small models of real exporters, compiled and proven equal."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import onnx
import pytest

from mcm_compiler.checking.check import check_folder
from mcm_compiler.options import DEFAULT_LEVEL

FOLDER = Path(__file__).parent.parent / "data" / "exports"
MODELS = {
    entry["file"].removesuffix(".onnx"): entry
    for entry in json.loads((FOLDER / "manifest.json").read_text(encoding="utf-8"))["models"]
}

LITTLE_SEARCH = {
    *("dynamo_rnn_opset18", "keras_bidirectional_lstm", "sklearn_isolation_forest"),
    *("sklearn_svr_polynomial", "sklearn_voting"),
}
"""Models for four chips on which the default level searches for seconds."""

MUCH_SEARCH = {
    *("converted_float16", "dynamo_unet_opset20", "optimised_encoder", "quantised_qoperator"),
    "torch_lstm_opset9",
}
"""Models for 36 chips that are divided, copied and unrolled as the default level has it."""


def level_of(name):
    small = MODELS[name]["target"] == "mcm4" and name not in LITTLE_SEARCH
    return DEFAULT_LEVEL if small or name in MUCH_SEARCH else 1


def test_manifest_lists_every_file():
    listed = {
        name for entry in MODELS.values() for name in (entry["file"], *entry["external_data"])
    }
    assert listed == {path.name for path in FOLDER.iterdir()} - {"manifest.json"}
    assert len(MODELS) >= 36


def test_files_are_small():
    assert max(path.stat().st_size for path in FOLDER.iterdir()) <= 300_000


def test_every_entry_names_the_versions_that_wrote_it():
    assert all(entry["versions"] and entry["description"] for entry in MODELS.values())


def test_files_tell_nothing_of_the_machine_they_were_made_on():
    assert [path for path in FOLDER.iterdir() if b"site-packages" in path.read_bytes()] == []


@pytest.mark.parametrize("name", MODELS)
def test_export_compiles_and_checks_equal(name, compile_to, workspace):
    entry = MODELS[name]
    result = compile_to(
        FOLDER / entry["file"],
        entry["target"],
        level=level_of(name),
        dims=entry["dims"],
        shapes={name: tuple(shape) for name, shape in entry["shapes"].items()},
    )
    report = check_folder(workspace / "out", seeds=(0, 1), proven_seeds=None)
    assert report.holds, report.diagnostics
    outputs = report.verification.outputs
    assert len(outputs) == len(onnx.load(FOLDER / entry["file"]).graph.output)
    assert report.verification.constant_outputs == tuple(entry["constant_outputs"])
    # Parts of ops may add in another order than the whole; then the tolerance holds.
    if entry["equality"] == "bits" and not report.structure.reordered:
        assert all(output.bit_equal for output in outputs)
    assert result.simulation.period_s > 0


def test_documentation_counts_the_models_of_each_exporter():
    text = (FOLDER.parents[2] / "docs" / "results" / "exports.md").read_text(encoding="utf-8")
    counts = Counter(entry["exporter"] for entry in MODELS.values())
    assert f"{len(MODELS)} small models" in text
    assert [name for name, count in counts.items() if f"| {name} | {count} |" not in text] == []
