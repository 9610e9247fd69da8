"""Layers by names."""

from __future__ import annotations

import pytest

from mcm_hardware.families.box.step_builder import layers_of


@pytest.mark.parametrize(
    ("names", "layers"),
    [
        (["a", "b"], [-1, -1]),
        (
            ["/encoder/embedding/Gather", "/encoder/layer.0/step.1/MatMul", "/encoder/layer.1/Add",
             "/decoder/embedding/Gather", "/decoder/layer.0/Add", "/projection/MatMul",
             "grad//decoder/layer.0/Add/Sub", "/other"],
            [0, 0, 1, 2, 2, 2, 2, -1],
        ),
        (["/conv1/Conv", "/layer1.0/Conv", "/layer1.1/Conv", "/layer2.0/Add", "/fc/Gemm"],
         [-1, 0, 1, 2, 2]),
        (["transformer.wte.weight", "/transformer/h.0/Add", "transformer.h.0.weight",
          "/lm_head/Gemm"],
         [0, 0, 0, 0]),
        (["/Conv2d_1a_3x3/Conv", "/Mixed_5b/Conv", "/Mixed_5c/Conv"], [0, 1, 2]),
        (["/layer.0/Add", "layer.1.weight", "clip/layer.0.weight/0", "update/layer.1.weight/3",
          "clip/1"],
         [0, 1, 0, 1, -1]),
        (["/encoder/layer.0/a", "/decoder/attention/key/a", "/decoder/layer.0/a",
          "/decoder/layer.1/attention/a", "grad//decoder/attention/step.1/a/0"],
         [0, 1, 1, 2, 1]),
        (["lstm.1/a", "lstm.0/a", "lstm.10/a"], [0, 1, 2]),
    ],
)  # fmt: skip
def test_layers(names: list[str], layers: list[int]) -> None:
    assert layers_of(names).tolist() == layers
