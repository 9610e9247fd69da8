"""The unrolled language model: its size, and that it is what LSTMs compute."""

from __future__ import annotations

import numpy as np
import pytest

from mcm_compiler.contracts.zoo import SHAPE_ONLY, WEIGHTS_KEY
from mcm_models.zoo.lstm_language_models import Rnnlm
from tests.generators.parameter_count import parameter_count

SMALL = {
    "steps": 3,
    "hidden": 6,
    "projected": 0,
    "vocab": 9,
    "batch": 2,
    "chunk": 2,
    "shape_only": False,
}


def test_full_size_is_shapes_only():
    model = Rnnlm().build()
    assert model.metadata_props[WEIGHTS_KEY] == SHAPE_ONLY
    lstm = 2 * 512 * 4 * 2048 + 4 * 2048 + 2048 * 512
    words = 2 * 10_000 * 512 + 10_000
    zeros = 64 * (2048 + 512)
    assert parameter_count(Rnnlm(shape_only=False).build()) == 2 * lstm + words + zeros


@pytest.mark.parametrize("projected", [0, 4])
def test_computes_the_equations(run, projected):
    model = Rnnlm(**SMALL | {"projected": projected}).build()
    w = {name: v.const_value.numpy() for name, v in model.graph.initializers.items()}
    rng = np.random.default_rng(0)
    ids, labels = rng.integers(9, size=(2, 2, 3))
    counted = np.array([[1, 1, 1], [1, 0, 0]], np.float32)
    (loss,) = run(model, {"input_ids": ids, "labels": labels, "word_weights": counted})
    output, cell = [np.zeros((2, projected or 6))] * 2, np.zeros((2, 2, 6))
    total = 0.0
    for step in range(3):
        x = w["embedding.weight"][ids[:, step]]
        for n in range(2):
            gates = np.concatenate([x, output[n]], axis=1) @ w[f"lstm.{n}.weight"]
            write, fresh, keep, show = np.split(gates + w[f"lstm.{n}.bias"], 4, axis=1)
            opened = 1 / (1 + np.exp(-np.stack([write, keep, show])))
            cell[n] = opened[1] * cell[n] + opened[0] * np.tanh(fresh)
            x = opened[2] * np.tanh(cell[n])
            if projected:
                x = x @ w[f"lstm.{n}.projection"]
            output[n] = x
        logits = x @ w["projection.weight"] + w["projection.bias"]
        chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        total -= (counted[:, step] * np.log(chances[range(2), labels[:, step]])).sum()
    np.testing.assert_allclose(loss, total / 4, rtol=1e-5)
