"""Graphs in ONNX's text form, for what no installed exporter writes any more.

Scan with two states and two sequences, optional inputs, operators on strings, a sparse weight, an
`If` whose condition is constant, a weight that is an output, an input that is an output, nodes
out of order and an operator of no known domain.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import onnx
from exports.export import Export
from onnx import helper, numpy_helper, parser

EXPORTER = "onnx text"
PACKAGES = ("onnx",)

_SCAN = """
<ir_version: 8, opset_import: ["" : 16]>
scan (float[5, 2, 4] forcing, float[5, 2, 4] noise, float[2, 4] start, float[2, 4] drift)
  => (float[2, 4] end, float[2, 4] sum, float[5, 2, 4] trace)
{
  scaled = Tanh (drift)
  end, sum, trace = Scan <num_scan_inputs = 2, scan_input_directions = [0, 1], body = step (
      float[2, 4] state, float[2, 4] total, float[2, 4] pushed, float[2, 4] shaken
    ) => (float[2, 4] next_state, float[2, 4] next_total, float[2, 4] shown) {
      turned = MatMul (state, weight)
      driven = Add (turned, pushed)
      drifted = Add (driven, scaled)
      next_state = Tanh (drifted)
      product = Mul (next_state, shaken)
      next_total = Add (total, product)
      shown = Identity (next_state)
    }> (start, start, forcing, noise)
}
"""

_OPTIONAL = """
<ir_version: 9, opset_import: ["" : 18]>
optional (optional(float[3, 6]) maybe, float[3, 6] x) => (float[3, 4] y)
{
  given = OptionalHasElement (maybe)
  chosen = If (given) <
    then_branch = present () => (float[3, 6] from_optional) {
      from_optional = OptionalGetElement (maybe)
    },
    else_branch = absent () => (float[3, 6] from_input) { from_input = Neg (x) }
  >
  mixed = Add (chosen, x)
  active = Relu (mixed)
  y = MatMul (active, weight)
}
"""

_STRINGS = """
<ir_version: 9, opset_import: ["" : 20, "ai.onnx.ml" : 3]>
strings (string[4] first, string[4] second) => (string[4] joined, float[4, 5] scores, bool[4] same)
{
  lowered = StringNormalizer <case_change_action = "UPPER", is_case_sensitive = 1, locale = "C">
    (first)
  joined = StringConcat (lowered, second)
  key = ai.onnx.ml.LabelEncoder <
    keys_strings = ["alpha", "beta", "gamma"], values_int64s = [3, 1, 2], default_int64 = 0
  > (second)
  scores = Gather (weight, key)
  same = RegexFullMatch <pattern = "(ALPHA|BETA).*a"> (joined)
}
"""

_CORNERS = """
<ir_version: 8, opset_import: ["" : 13]>
corners (float[2, 6] x, float[2, 4] untouched)
  => (float[2, 4] y, float[6, 4] weight, float[2, 4] untouched)
{
  y = Add (chosen, untouched)
  chosen = If (always) <
    then_branch = yes () => (float[2, 4] kept) { kept = Gemm (hidden, weight, "") },
    else_branch = no () => (float[2, 4] other) { other = Sub (untouched, untouched) }
  >
  hidden = MatMul (x, sparse)
  always = Constant <value = bool {1}> ()
}
"""


def _weights(name: str, *shape: int) -> onnx.TensorProto:
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    return numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), "weight")


def _write(path: Path, text: str, *shape: int) -> onnx.ModelProto:
    model = parser.parse_model(text)
    model.graph.initializer.append(_weights(path.stem, *shape))
    onnx.save(model, path)
    return model


def _scan(path: Path) -> None:
    _write(path, _SCAN, 4, 4)


def _optional(path: Path) -> None:
    _write(path, _OPTIONAL, 6, 4)


def _strings(path: Path) -> None:
    _write(path, _STRINGS, 4, 5)


def _corners(path: Path) -> None:
    model = _write(path, _CORNERS, 6, 4)
    values = numpy_helper.from_array(np.array([1.5, -0.75, 2.25], dtype=np.float32), "sparse")
    places = numpy_helper.from_array(np.array([1, 14, 33]), "sparse_places")
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [6, 6]))
    onnx.save(model, path)


def exports() -> list[Export]:
    """All models of this exporter."""
    return [
        Export("text_scan", "Scan with two states, two sequences and a captured weight", _scan,
               target="mcm4"),
        Export("text_optional", "an optional input, read inside an If", _optional, target="mcm4"),
        Export("text_strings", "normalised, joined, encoded and matched strings", _strings,
               target="mcm4"),
        Export("text_corners", "sparse weight, constant If, nodes out of order, odd outputs",
               _corners, target="mcm4", constant_outputs=("weight",)),
    ]  # fmt: skip
