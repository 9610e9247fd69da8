"""Ops that run together get one device, one that they may have."""

from __future__ import annotations

import numpy as np

from mcm_passes.families.box.learning.judged import placement_units


def test_placements_keep_to_the_rules(case):
    units = placement_units(case.problem, case.box)
    devices = np.random.default_rng(0).integers(0, 3, (5, units.count))
    placements = units.placements(devices)
    case.evaluator.evaluate(placements)
    for k in range(5):
        for n in range(case.problem.num_ops):
            asked = devices[k, case.problem.together[n]]
            if case.problem.allowed[n, asked]:
                assert placements[k, n] == asked
            else:
                members = case.problem.together == case.problem.together[n]
                times = case.problem.time_s[members][:, case.box.kind_of].sum(axis=0)
                may = np.flatnonzero(case.problem.allowed[n])
                assert placements[k, n] == may[times[may].argmin()]
