"""A small model, a placer by letters of names, and the folder of its placement."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import onnx
import onnx_ir as ir

from mcm_compiler.contracts.boxes.placers import PlacerAnswer, PlacerRequest
from mcm_compiler.ir.reading.importer import import_model
from mcm_compiler.placed.place_options import PlaceOptions
from mcm_compiler.placed.placed_model import PlacedModel
from mcm_compiler.placed.placing import place_model
from mcm_compiler.registry import register


def small_model() -> ir.Model:
    """Eight named ops in two branches that read a weight each, and a table of constants."""
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> small (float[64,128] x) '
        "=> (float[64,128] y, float[64,128] z) {"
        " a = MatMul (x, u) b = LeakyRelu (a) r = Relu (x) e = Add (b, r) c = MatMul (e, v)"
        " d = Tanh (c) y = MatMul (d, u) z = Add (d, r) }"
    )
    rng = np.random.default_rng(0)
    for name in "uv":
        weight = rng.standard_normal((128, 128), dtype=np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, name))
    for node in proto.graph.node:
        node.name = f"op_{node.output[0]}"
    return ir.from_proto(proto)


def imported_model() -> ir.Model:
    """The small model as a placement begins with it: with all shapes, and its source."""
    return import_model(small_model(), "small", {}, {}, None)[0]


@register("placer")
@dataclass(frozen=True)
class ByLetters:
    """Devices by the last letter of an op's name: `gpu:0` for those of `second`, else `cpu:0`."""

    name: ClassVar[str] = "letters"
    summary: ClassVar[str] = "by letters of names"

    second: str = "cd"
    wrong: str = ""

    def place(self, request: PlacerRequest) -> PlacerAnswer:
        """Does not look at what is allowed."""
        request.progress("by letters")
        problem = request.problem
        device_of = np.zeros(problem.num_ops, np.int32)
        for op, name in enumerate(problem.names):
            if name.startswith("op_"):
                device_of[op] = name[-1] in self.second
        if self.wrong == "short":
            device_of = device_of[:-1]
        if self.wrong == "far":
            device_of[-1] = request.box.num_devices
        return PlacerAnswer(device_of, "by letters", 1, ((1, 0.5),), (("letters", 2.0),))


def place_small(
    folder: Path | None = None, target: str = "box-cpu-gpu", **options: object
) -> PlacedModel:
    """The small model, placed as `ByLetters` says."""
    asked = PlaceOptions(**{"placer": "letters", **options})  # pyright: ignore[reportArgumentType]
    return place_model(small_model(), target, asked, output=folder)
