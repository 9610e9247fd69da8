"""Unrolled translation: its size by options, and that it computes what LSTMs and attention do."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from mcm_models.zoo.nmt import Gnmt, Nmt
from tests.generators.parameter_count import parameter_count

SMALL = {"layers": 3, "steps": 4, "hidden": 8, "vocab": 11, "batch": 2}


def _ops(builder):
    nodes = builder.build().graph
    return sum(node.op_type not in ("Constant", "ConstantOfShape") for node in nodes)


def test_every_step_costs_the_same_ops():
    sizes = [_ops(Nmt(layers=8, hidden=8, vocab=11, steps=steps)) for steps in (2, 3, 4, 20)]
    assert np.diff(sizes[:3]).tolist() == [247, 247]
    assert sizes[3] - sizes[2] == 16 * 247


def test_weights_do_not_grow_with_the_steps():
    counts = {parameter_count(Nmt(**SMALL | {"steps": steps}).build()) for steps in (1, 2, 9)}
    assert len(counts) == 1


def test_full_sizes():
    assert _ops(Gnmt(shape_only=True)) == pytest.approx(5000, rel=0.02)
    width, vocab = 1024, 32_000
    cell = 4 * width
    encoder = (
        2 * (2 * width * cell + cell) + (3 * width * cell + cell) + 6 * (2 * width * cell + cell)
    )
    decoder = 8 * (3 * width * cell + cell)
    attention = 2 * width * width + width
    words = 3 * vocab * width + vocab
    zeros = width
    assert parameter_count(Gnmt().build()) == encoder + decoder + attention + words + zeros


def test_every_step_has_its_matrix_products():
    nmt = Nmt(layers=8, steps=5, hidden=8, vocab=11, shape_only=True).build()
    kinds = Counter(node.op_type for node in nmt.graph)
    cells, attention, keys_and_projection = 17 * 5, 3 * 5, 2
    assert kinds["MatMul"] == cells + attention + keys_and_projection
    assert kinds["Split"] == cells + 2


def _sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


class _Reference:
    """The model in NumPy, written from the equations."""

    def __init__(self, model):
        self.weights = {
            name: value.const_value.numpy() for name, value in model.graph.initializers.items()
        }

    def cell(self, layer, x, state):
        output, cell = state
        gates = np.concatenate([x, output], axis=1) @ self.weights[f"{layer}.weight"]
        gates = gates + self.weights[f"{layer}.bias"]
        write, fresh, keep, show = np.split(gates, 4, axis=1)
        cell = _sigmoid(keep) * cell + _sigmoid(write) * np.tanh(fresh)
        return _sigmoid(show) * np.tanh(cell), cell

    def run(self, source, target, layers):
        w = self.weights
        steps, hidden = source.shape[1], w["encoder.embedding.weight"].shape[1]
        words = w["encoder.embedding.weight"][source]
        zero = (np.zeros((len(source), hidden)),) * 2
        ahead, back = {}, {}
        state = zero
        for t in range(steps):
            state = self.cell("encoder.layer.0.forward", words[:, t], state)
            ahead[t] = state[0]
        states = [state]
        state = zero
        for t in reversed(range(steps)):
            state = self.cell("encoder.layer.0.backward", words[:, t], state)
            back[t] = state[0]
        sequence = [np.concatenate([ahead[t], back[t]], axis=1) for t in range(steps)]
        for number in range(1, layers):
            state, above = zero, []
            for x in sequence:
                state = self.cell(f"encoder.layer.{number}", x, state)
                above.append(state[0] + x if number >= 2 else state[0])
            sequence = above
            states.append(state)
        memory = np.stack(sequence, axis=1)
        keys = memory @ w["decoder.attention.key.weight"]
        logits = []
        for t in range(steps):
            query = states[0][0] @ w["decoder.attention.query.weight"]
            scores = np.tanh(keys + query[:, None]) @ w["decoder.attention.score.weight"]
            shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
            context = (shares * memory).sum(axis=1)
            x = w["decoder.embedding.weight"][target][:, t]
            for number in range(layers):
                pair = np.concatenate([x, context], axis=1)
                states[number] = self.cell(f"decoder.layer.{number}", pair, states[number])
                x = states[number][0] + (x if number >= 2 else 0.0)
            logits.append(x @ w["projection.weight"] + w["projection.bias"])
        return np.stack(logits, axis=1)


def test_computes_the_equations(run):
    model = Nmt(**SMALL).build()
    rng = np.random.default_rng(0)
    source, target = rng.integers(11, size=(2, 2, 4))
    (logits,) = run(model, {"source_ids": source, "target_ids": target})
    expected = _Reference(model).run(source, target, layers=3)
    np.testing.assert_allclose(logits, expected, atol=1e-5)
