"""This compiler's own answer: what peers are held against."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from partition_cases.cases import Case as PartitionCase
from partition_cases.cells import LEVEL, PORTFOLIO, run_strategy
from partition_cases.isolation import Meter
from peer_cases.cases import COST_MODEL, TARGET, Case

from mcm_compiler import CompileOptions, compile_model

SEED = 0


def searched(case: Case) -> dict[str, Any]:
    """Period, proven bound and time of the search alone, as the compiler searches by default."""
    found = run_strategy(PartitionCase(case.problem, case.evaluator), PORTFOLIO, SEED, LEVEL)
    kept = ("period_s", "bound_s", "argument", "simulated_s", "chips_used", "found_by")
    return {name: found[name] for name in kept} | {
        "cpu_s": round(found["cpu_s"], 4),
        "wall_s": round(found["wall_s"], 4),
    }


def compiled(case: Case, folder: Path) -> dict[str, Any]:
    """A whole compile as one pipeline: time, and what its verification says."""
    options = CompileOptions(replicas=1, seed=SEED, cost_model=COST_MODEL)
    with Meter() as meter:
        result = compile_model(case.source, TARGET, options, output=folder / "compiled")
    verified, partition = result.verification, result.partition
    assert verified is not None
    assert partition is not None
    proof = verified.structure
    return {
        "cpu_s": round(meter.figures()["cpu_s"], 2),
        "wall_s": round(meter.figures()["wall_s"], 2),
        "period_s": partition.period_s,
        "holds": verified.holds,
        "bit_equal": all(one.bit_equal for one in verified.outputs),
        "outputs": len(verified.outputs),
        "ops_proven": 0 if proof is None else proof.proven,
        "ops": 0 if proof is None else proof.ops,
    }
