"""Steps that are put together train what they should."""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts.boxes.box import INPUT, VARIABLE
from mcm_models.cluster_policy.synthetic_builder import DeviceRates, StepBuilder
from tests.generators.step_problems import random_box


def test_two_products_that_share_a_weight():
    step = StepBuilder()
    data = step.op(INPUT, (), (8,), layer=0)[0]
    weight = step.variable(16, layer=0)
    one = step.op("MatMul", (data, weight), (8,), 100.0, 0)[0]
    two = step.op("MatMul", (one, weight), (8,), 200.0, 1)[0]
    step.train(step.op("Nll", (two,), (4,), layer=1)[0])
    box = random_box(np.random.default_rng(0))
    rates = (DeviceRates(1.0, np.inf, 0.5), DeviceRates(10.0, np.inf, 0.0))
    problem = step.problem(box, rates)
    # Two gradients of the second product, one of the first: the input is no weight.
    assert list(problem.op_types[5:]) == [
        "Ones", "NllGrad", "MatMulGrad", "MatMulGrad", "MatMulGrad",
        "AddN", VARIABLE, VARIABLE, "Adam",
    ]  # fmt: skip
    products = problem.time_s[np.array(problem.op_types) == "MatMulGrad"]
    np.testing.assert_allclose(products, [[200.5, 20], [200.5, 20], [100.5, 10]])
    adam = problem.num_ops - 1
    held = [problem.producer[weight], *problem.producer[problem.reads[-2:]], adam]
    assert len({int(problem.together[n]) for n in held}) == 1
    assert problem.view_of[problem.producer == adam].tolist() == [weight]
    assert problem.stays.sum() == 3
    assert problem.allowed[0].tolist() == [True, False, False]
    assert not problem.time_s[np.array(problem.op_types) == VARIABLE].any()
