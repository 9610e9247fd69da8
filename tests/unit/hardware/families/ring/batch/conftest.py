"""The batch evaluator beside the passes that it foretells."""

from __future__ import annotations

import pytest

from mcm_compiler.components.cost_choice import with_cost_model
from tests.oracles.real_road import PackageOptions, Road, parse


@pytest.fixture
def make_road():
    """Makes a `Road` of ONNX text or a zoo model on a package with the given options."""

    def make(source, *, routing="relay", groups=None, clones=False, use=None, times="", **options):
        model = parse(source) if "=>" in source else source
        target = PackageOptions(**options).target()
        if times:
            target = with_cost_model(target, "table{file=t.csv}", lambda _: times.encode())
        return Road(model, target, routing=routing, groups=groups, clones=clones, use=use)

    return make
