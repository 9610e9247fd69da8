"""Every model of the zoo and the light models of the onnx package, compiled and proven equal."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx_ir as ir
import pytest

from mcm_compiler.checking.check import check_folder
from mcm_compiler.options import DEFAULT_LEVEL
from mcm_compiler.registry import ZOO
from tests.generators.refilled_weights import refill_weights

LIGHT_FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
LIGHT = ["light_densenet121", "light_inception_v1", "light_shufflenet", "light_squeezenet"]
"""The other five have many weights, and no op that these or the zoo's lack."""

SEARCHED = {"bert-tiny", "lstm-lm", "residual-cnn", "t5", "light_squeezenet"}
"""Compiled at the default level, which divides, copies and unrolls; those like them at level 1."""

FOR_CLUSTERS = {"llama-7b"}
"""Models with more weights than chips have memory for."""

FOR_BOXES = {"rnnlm"}
"""A batch with a loss, without weights by default, to be differentiated and placed in boxes."""

FOR_TRAINING = {"bert-48", "bert-pretraining"}
"""Models that are others with a head or more layers; compiled without weights alone."""

OTHER_SIZES = {"bert-base", "bert-large", "t5-small"}
"""Models that are others with sizes of their own."""

MANY_WEIGHTS = {"resnet50", "vgg19"}
"""Models whose weights take seconds to make; the first is among the light ones, too."""

ZOO_NAMES = [r.name for r in ZOO.registrations() if r.name not in FOR_CLUSTERS | FOR_BOXES]

_NARROW = "{layers=2,hidden=256,heads=4,intermediate=1024,vocab=2000}"
_SHORT = "{layers=2,decoder_layers=2,hidden=256,heads=4,intermediate=512,vocab=2000}"
SMALLER = {
    "bert": f"bert{_NARROW}",
    "bidirectional-rnn": "bidirectional-rnn{layers=1,steps=4}",
    "dense-cnn": "dense-cnn{blocks=3,growth=16}",
    "encoder-decoder-rnn": "encoder-decoder-rnn{layers=1,steps=4}",
    "gnmt": "gnmt{layers=2,steps=2,hidden=128,vocab=2000}",
    "gpt2": f"gpt2{_NARROW}",
    "inception-v3": "inception-v3{image_size=75}",
    "llama": f"llama{_NARROW[:-1]},experts=3,active=1}}",
    "mobilenet-v2": "mobilenet-v2{image_size=64}",
    "nmt": "nmt{steps=2}",
    "plain-cnn": "plain-cnn{image_size=16,width=16}",
    "residual-cnn": "residual-cnn{image_size=16,width=16}",
    "stacked-rnn": "stacked-rnn{layers=2,steps=4}",
    "t5": f"t5{_SHORT}",
    "unet-cnn": "unet-cnn{image_size=32,width=16}",
}
"""Models whose runs would take a minute; without weights they are compiled as they are."""

SHORTER = {"bert-48": "layers=6,", "t5": "layers=4,decoder_layers=4,"}
"""But for those of many layers that are alike."""


def prove(result, folder):
    report = check_folder(folder)
    assert report.holds, report.diagnostics
    assert report.verification.outputs
    # Parts of ops may add in another order than the whole; then the tolerance holds.
    assert report.structure.reordered or all(o.bit_equal for o in report.verification.outputs)
    assert report.verification.constant_outputs == ()
    assert result.simulation.period_s >= result.partition.bound.seconds


def level_of(name):
    return DEFAULT_LEVEL if name in SEARCHED else 1


@pytest.mark.parametrize("name", LIGHT)
def test_light_model(name, compile_to, workspace):
    model = ir.load(LIGHT_FOLDER / f"{name}.onnx")
    assert refill_weights(model) > 10
    prove(compile_to(model, level=level_of(name)), workspace / "out")


@pytest.mark.parametrize("name", sorted({*ZOO_NAMES} - FOR_TRAINING - OTHER_SIZES - MANY_WEIGHTS))
def test_zoo_model(name, compile_to, workspace):
    model = f"zoo:{SMALLER.get(name, name)}"
    prove(compile_to(model, level=level_of(name)), workspace / "out")


@pytest.mark.parametrize("name", sorted({"t5"} | FOR_TRAINING | MANY_WEIGHTS))
def test_shape_only_zoo_model(name, compile_to, workspace):
    # With next to no search: those above are searched.
    sizes = SHORTER.get(name, "")
    compile_to(f"zoo:{name}{{{sizes}shape_only=true}}", level=0)
    report = check_folder(workspace / "out")
    assert report.holds, report.diagnostics
    assert report.verification.skipped == "shape-only weights"
