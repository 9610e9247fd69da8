"""One chip, written by hand, and the proof that it computes what a model computes."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
from onnx import numpy_helper, parser

from mcm_compiler.contracts.target import HOST, ChipModel, Wire
from mcm_compiler.contracts.verification import StructureProof
from mcm_compiler.equivalence.structure_proof import prove_chips
from mcm_compiler.ir.shapes.inference import infer_shapes

Arrays = dict[str, np.ndarray]


def model_text(text: str, weights: Arrays, opset: int = 21) -> onnx.ModelProto:
    """A model of a graph in ONNX's text form, with these weights."""
    head = f'<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1]>'
    proto = parser.parse_model(f"{head} {text}")
    for name, array in weights.items():
        proto.graph.initializer.append(numpy_helper.from_array(np.array(array, order="C"), name))
    for number, node in enumerate(proto.graph.node):
        node.name = f"op_{number}"
    return proto


def prove_one_chip(
    whole: onnx.ModelProto, chip: onnx.ModelProto, unfollowed: tuple[str, ...] = ("apply_plan",)
) -> StructureProof:
    """The proof for a chip that runs all of a model."""
    source, one = ir.from_proto(whole), ir.from_proto(chip)
    names = [[v.name or "" for v in values] for values in (one.graph.inputs, one.graph.outputs)]
    wires = [Wire(n, HOST, (0,)) for n in names[0]] + [Wire(n, 0, (HOST,)) for n in names[1]]
    infer_shapes(source)
    chips = [ChipModel(0, one, tuple(names[0]), tuple(names[1]))]
    return prove_chips(source, chips, wires, placeholders=False, unfollowed_passes=unfollowed)


def proven(ends: str, source: str, weights: Arrays, chip: str, parts: Arrays) -> bool:
    """Whether one chip computes what the model computes, op by op."""
    whole = model_text(f"m {ends} {{ {source} }}", weights)
    found = prove_one_chip(whole, model_text(f"c {ends} {{ {chip} }}", parts))
    return found.whole and not found.outputs
