from __future__ import annotations

import pytest

from mcm_compiler.api import compile_model
from mcm_compiler.options import CompileOptions

PASSES = "simplify,fuse,annotate_cost,shard_oversized,partition,legalize,split,lower,simulate"


@pytest.mark.parametrize(
    ("model", "partitioner"), [("zoo:bert-tiny", "dp"), ("zoo:gpt2-tiny", "dp{orders=1}")]
)
def test_no_simulation_beats_the_proven_bound(model, partitioner):
    options = CompileOptions(passes=PASSES, partitioner=partitioner)
    result = compile_model(model, "mcm4", options)
    assert result.simulation is not None
    assert result.partition is not None
    assert result.simulation.period_s >= result.partition.bound.seconds * (1 - 1e-9)
    assert result.simulation.steady_from is not None
    for chip in result.simulation.chips:
        whole = chip.busy_s + sum(chip.stall_s.values())
        assert whole == pytest.approx(result.simulation.period_s, rel=1e-9)
