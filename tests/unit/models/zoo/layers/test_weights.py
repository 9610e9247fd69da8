"""Random weights: reproducible, independent of one another, of the stated distribution."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from mcm_models.graph_builder import after_relu, around, keeps_variance, random_tensor


def test_values_depend_on_name_and_seed_alone():
    values = keeps_variance(100)
    one = random_tensor("a", [100, 50], values, 0).numpy()
    np.testing.assert_array_equal(one, random_tensor("a", [100, 50], values, 0).numpy())
    for name, seed in (("b", 0), ("a", 1)):
        other = random_tensor(name, [100, 50], values, seed).numpy()
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 0.1


@pytest.mark.parametrize(
    ("values", "digest"),
    [(keeps_variance(70), "0dc1930c"), (after_relu(70), "73372de0")],
    ids=["plain", "centered"],
)
def test_bytes_never_change(values, digest):
    """Reports and golden files hang on these bytes, across machines and versions of NumPy."""
    content = random_tensor("layer.weight", [3000, 70], values, 5).tobytes()
    assert hashlib.sha256(content).hexdigest()[:8] == digest


def test_scale_keeps_the_variance():
    weight = random_tensor("w", [256, 512], keeps_variance(512), 0).numpy()
    output = weight @ np.random.default_rng(0).standard_normal(512)
    assert weight.dtype == np.float32
    assert output.std() == pytest.approx(1.0, rel=0.2)


def test_centered_weights_ignore_the_mean_of_their_input():
    weight = random_tensor("w", [400, 30, 3, 3], after_relu(270), 0).numpy().reshape(400, 270)
    np.testing.assert_allclose(weight.sum(axis=1), 0, atol=1e-4)
    rectified = np.maximum(np.random.default_rng(0).standard_normal(270), 0)
    assert (weight @ rectified).std() == pytest.approx(1.0, rel=0.2)


def test_around_stays_within_its_distance():
    weight = random_tensor("w", [5000], around(1.0, 0.2), 0).numpy()
    assert 0.8 <= weight.min() < 0.81
    assert 1.19 < weight.max() <= 1.2


def test_nothing_is_kept():
    tensor = random_tensor("w", [8], around(0.0, 1.0), 0)
    assert tensor.numpy() is not tensor.numpy()
