"""Files of small networks, for tests of what reads many models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH = 8


def write_network(
    path: Path, layers: int = 2, width: int = WIDTH, seed: int = 0, external: bool = False
) -> None:
    """Writes x[batch, 8] -> `layers` of MatMul, all `width` wide but the last -> y.

    Args:
        path: of the file; its folder is made.
        layers: of them.
        width: of the values within.
        seed: of the weights.
        external: whether the weights lie in a file beside it.
    """
    rng = np.random.default_rng(seed)
    nodes, weights, value, size = [], [], "x", WIDTH
    for layer in range(layers):
        wide = WIDTH if layer == layers - 1 else width
        array = rng.standard_normal((size, wide), dtype=np.float32)
        weights.append(numpy_helper.from_array(array, f"w{layer}"))
        nodes.append(helper.make_node("MatMul", [value, f"w{layer}"], [f"h{layer}"], f"fc{layer}"))
        value, size = f"h{layer}", wide
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", WIDTH])],
        [helper.make_tensor_value_info(value, TensorProto.FLOAT, None)],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(
        model, path, save_as_external_data=external, location=f"{path.name}.data", size_threshold=0
    )
