"""What is seen of ops is what they are."""

from __future__ import annotations

import numpy as np
from hier_planner.op_features import ADJACENT, OUTPUTS, op_features, representatives

from tests.generators.step_problems import random_box, random_step


def test_features_of_ops():
    rng = np.random.default_rng(3)
    problem = random_step(rng, random_box(rng), 40)
    features = op_features(problem)
    chosen = representatives(problem)
    names = sorted(set(problem.op_types))
    for unit, n in enumerate(chosen.tolist()):
        members = np.flatnonzero(problem.together == unit)
        fastest = problem.time_s[members].min(axis=1)
        assert n == members[np.argmax(fastest)]
        assert names[features.unit_type[unit]] == problem.op_types[n]
        made = [v for v in range(problem.num_values) if problem.producer[v] == n]
        row = features.unit_values[unit]
        assert row[0] == np.float32(len(made) / OUTPUTS)
        sizes = [np.log2(1 + problem.value_bytes[v]) / 30 for v in made[:OUTPUTS]]
        sizes += [0.0] * (OUTPUTS - len(sizes))
        np.testing.assert_allclose(row[1 : 1 + OUTPUTS], sizes, rtol=1e-6)
        makers = sorted({a for a, b in problem.edges.tolist() if b == n})[: ADJACENT // 2]
        readers = sorted({b for a, b in problem.edges.tolist() if a == n})[: ADJACENT // 2]
        for begin, seen in ((0, makers), (ADJACENT // 2, readers)):
            padded = [m / problem.num_ops for m in seen]
            padded += [-1.0] * (ADJACENT // 2 - len(seen))
            part = row[1 + OUTPUTS + begin : 1 + OUTPUTS + begin + ADJACENT // 2]
            np.testing.assert_allclose(part, padded, rtol=1e-6)
