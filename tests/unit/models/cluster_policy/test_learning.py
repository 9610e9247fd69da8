"""Updates make what did well likelier, of decisions alone and not of padding."""

from __future__ import annotations

import numpy as np

from mcm_models.cluster_policy.layout import COLUMNS, ClusterLayout, initial_weights
from mcm_models.cluster_policy.learning import Rows, arrays_of, padded, update
from mcm_models.ppo import adam
from mcm_models.ppo_settings import PpoSettings


def test_a_column_that_does_well_is_learned():
    rng = np.random.default_rng(0)
    settings = PpoSettings(epochs=3, learning_rate=0.02, entropy=0.0)
    weights = initial_weights(ClusterLayout(width=4), 0)
    state = adam(1.0, 0.02).init(dict(weights))
    for _ in range(20):
        seen = rng.random((50, 3, len(COLUMNS))).astype(np.float32)
        chosen = rng.integers(0, 3, 50).astype(np.int32)
        gain = seen[np.arange(50), chosen, 7] - 0.5
        allowed = np.ones((50, 3), np.bool_)
        rows = Rows(seen, allowed, chosen, gain.astype(np.float32), np.ones(50, np.float32))
        weights, state, entropy = update(settings, dict(weights), state, padded(rows, 4, 64))
        assert 0.0 < float(entropy) <= np.log(3) + 1e-5
    linear = arrays_of(weights)["linear"][:, 0]
    assert linear.argmax() == 7
    assert linear[7] > 0.05


def test_padding_changes_nothing():
    rng = np.random.default_rng(1)
    settings = PpoSettings(epochs=3)
    weights = initial_weights(ClusterLayout(width=4), 0)
    seen = rng.random((64, 4, len(COLUMNS))).astype(np.float32)
    allowed = np.ones((64, 4), np.bool_)
    allowed[:, 3] = False
    chosen = rng.integers(0, 3, 64).astype(np.int32)
    gain = rng.standard_normal(64).astype(np.float32)
    whole = Rows(seen, allowed, chosen, gain, np.ones(64, np.float32))
    few = Rows(*(part[:40] for part in whole))
    masked = whole._replace(weight=(np.arange(64) < 40).astype(np.float32))
    found = [
        update(settings, dict(weights), adam(1.0, 1e-3).init(dict(weights)), rows)[0]
        for rows in (padded(few, 4, 64), masked)
    ]
    for name in weights:
        np.testing.assert_allclose(found[0][name], found[1][name], atol=1e-6)
