"""Routers that pass tensors on, so that chips between need no copies of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mcm_compiler.api import run_passes
from mcm_compiler.certificate.stored_problem import problem_from_arrays, problem_to_arrays
from mcm_compiler.contracts.partition import LEGALIZATION, PARTITION, PARTITION_PROBLEM
from mcm_compiler.contracts.program import PROGRAM, SIMULATION
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.options import CompileOptions
from mcm_hardware.families.ring.ring_target import RingTarget, mcm36
from mcm_passes.mapping.machine.evaluation import evaluate
from tests.generators.partition_problems import make_problem
from tests.generators.small_rings import CUT, STORE, far
from tests.oracles.shown_bounds import verify_bound

PASSES = (
    "simplify,fuse,annotate_cost,parallelize{search=false},partition,legalize,split,lower,simulate"
)
ENGINE_KEY = "hop_latency_us = 1.0\n"
ROUTER_KEY = f'{ENGINE_KEY}forwarding = "router"\n'


def test_a_router_holds_what_the_chip_at_the_end_has_no_buffer_for() -> None:
    store = replace(STORE, forwarding="router")
    cut = replace(CUT, forwarding="router")
    assert far(store).latency_s == far(STORE).latency_s
    assert far(store).period_s == 4.0
    # With one buffer in each router, a link waits until the next one has taken the tensor.
    assert far(store, slots=1).period_s == 4.5 + 4
    assert far(STORE, slots=1).period_s == 4.5 + 4.5 + 6 + 1
    # What cuts through is in two of them at once; the last waits for the kernel's buffer.
    assert far(cut, slots=1).period_s == 4 + 2 + 1


def test_what_passes_by_costs_neither_time_nor_memory() -> None:
    shape = {"compute_us": [1, 1, 1], "edges": [(0, 1), (1, 2), (0, 2)], "relay_us": 5.0}
    engine = make_problem(**shape, tensor_bytes=640)
    router = make_problem(**shape, tensor_bytes=640, forwarding="router")
    chips = np.arange(3, dtype=np.int32)
    relayed, passed = evaluate(engine, chips), evaluate(router, chips)
    assert relayed.chip_busy_s[1] == pytest.approx(6e-6)
    assert passed.chip_busy_s[1] == pytest.approx(1e-6)
    # Both receive it for the unit there; a relay has buffers to send it from as well.
    slots = engine.limits.channel_slots
    assert (relayed.memory_bytes - passed.memory_bytes).tolist() == [0, slots * 640, 0]
    assert passed.channel_busy_s.tolist() == relayed.channel_busy_s.tolist()


def test_legalize_adds_no_relays_and_the_bound_is_shown_again(tmp_path: Path) -> None:
    path = tmp_path / "router.toml"
    path.write_text(mcm36().source_text.replace(ENGINE_KEY, ROUTER_KEY), encoding="utf-8")
    periods: list[float] = []
    for target in ("mcm36", str(path)):
        model, _, _ = run_passes(
            "zoo:dense-cnn{shape_only=true}",
            target,
            CompileOptions(passes=PASSES, level=1, replicas=1, round=1),
        )
        relays, program = LEGALIZATION.get(model).relays, PROGRAM.get(model)
        far_apart = [t for t in program.transfers if 0 <= t.source < t.destination - 1]
        assert bool(relays) == (target == "mcm36")
        assert bool(far_apart) == (target != "mcm36")
        assert verify_bound(PARTITION_PROBLEM.get(model), PARTITION.get(model).bound)
        periods.append(SIMULATION.get(model).period_s)
        assert periods[-1] <= 1.05 * PARTITION.get(model).period_s
    assert periods[1] < 0.95 * periods[0]


def test_routers_do_not_reach_the_host_at_the_ends() -> None:
    text = mcm36().source_text.replace(ENGINE_KEY, ROUTER_KEY)
    with pytest.raises(CompileError, match=r"MCM-T008.*routers pass nothing on between the ends"):
        RingTarget.from_text("ends", text.replace('host_io = "any"', 'host_io = "ends"'))


def test_a_certificate_names_routers_and_leaves_out_engines() -> None:
    engine = make_problem([1, 1], [(0, 1)])
    router = make_problem([1, 1], [(0, 1)], forwarding="router")
    for problem, listed in ((engine, False), (router, True)):
        arrays, machine = problem_to_arrays(problem)
        assert ("forwarding" in machine) == listed
        assert problem_from_arrays(arrays, machine, "relay").limits == problem.limits
