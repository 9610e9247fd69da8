"""Features of groups, against counting by hand."""

from __future__ import annotations

import numpy as np
from hier_planner.op_features import group_features, op_features

from tests.generators.step_problems import random_box, random_step


def test_features_of_groups():
    rng = np.random.default_rng(5)
    problem = random_step(rng, random_box(rng), 40)
    features, groups = op_features(problem), 6
    group_of = rng.integers(0, groups - 1, (2, 40)).astype(np.int32)
    found = group_features(features, group_of, groups)
    width = features.types + features.op_sizes.shape[1]
    for k in range(2):
        for g in range(groups):
            members = np.flatnonzero(group_of[k] == g)
            expected = np.zeros(width + 2 * groups)
            if len(members):
                kinds = np.bincount(features.op_type[members], minlength=features.types)
                expected[: features.types] = kinds / len(members)
                expected[features.types : width] = features.op_sizes[members].mean(axis=0)
            for a, b in problem.edges.tolist():
                expected[width + group_of[k, b]] += group_of[k, a] == g
                expected[width + groups + group_of[k, a]] += group_of[k, b] == g
            expected[width:] /= expected[width:].max() + 1
            np.testing.assert_allclose(found[k, g], expected, rtol=1e-5, atol=1e-7)
    assert not found[:, groups - 1].any()
