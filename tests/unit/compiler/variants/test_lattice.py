"""More of a resource is never slower, in all families that have sensitivities, and in sweeps."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from mcm_compiler.api import compile_model
from mcm_compiler.checking.check import check_folder
from mcm_compiler.components.target_loading import load_target, target_from_text
from mcm_compiler.contracts.requests import ExploreOptions
from mcm_compiler.contracts.target import OrdersKeys, Target
from mcm_compiler.diagnostics import Diagnostic
from mcm_compiler.exploration.explore import explore
from mcm_compiler.options import DEFAULT_PIPELINE, CompileOptions
from mcm_compiler.report.hardware.sensitivity_section import sensitivity_table
from mcm_compiler.results.points import PlacedPoint
from mcm_compiler.variants import sensitivities
from mcm_compiler.variants.points import Prepared, failed_point, no_slower
from mcm_compiler.variants.sensitivities import Sensitivities, changed_target
from tests.generators.line_machine import line_text

SLACK = 1e-9
OPTIONS = CompileOptions(replicas=1, inferences=8, level=1)
WHOLE = replace(
    OPTIONS, passes=DEFAULT_PIPELINE.replace("parallelize", "parallelize{search=false}")
)


def head_model() -> ir.Model:
    """Two products, of which the second has nearly all weights and all work."""
    rng = np.random.default_rng(0)
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> m (float[32,64] x) => (float[32,4096] y)'
        " { a = MatMul (x, u) b = Relu (a) y = MatMul (b, v) }"
    )
    for name, shape in (("u", (64, 128)), ("v", (128, 4096))):
        weight = rng.standard_normal(shape, dtype=np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, name))
    return ir.from_proto(proto)


def package(kind: str) -> Target:
    """Four chips of 2.5 MiB, of which half cannot hold the second product."""
    ring = load_target("mcm4").source_text.replace("sram_mib = 64", "sram_mib = 2.5")
    if kind == "ring":
        return target_from_text("ring", ring)
    if kind == "plug-in":
        return target_from_text("line", line_text(ring))
    mesh = load_target("mesh36").source_text.replace("sram_mib = 64", "sram_mib = 2.5")
    mesh = mesh.replace("size = [6, 6]", "size = [2, 2]")
    return target_from_text(kind, mesh.replace('kind = "mesh"', f'kind = "{kind}"'))


@pytest.mark.parametrize("kind", ["ring", "mesh", "plug-in"])
def test_ops_are_divided_as_for_smaller_chips_where_that_is_faster(
    kind: str, tmp_path: Path
) -> None:
    found = compile_model(
        head_model(), package(kind), WHOLE, output=tmp_path / "out", sensitivities=True
    )
    rows = {(row["resource"], row["factor"]): row for row in found.sensitivities or ()}
    for (resource, factor), row in rows.items():
        if row["speedup"] is not None:
            worse = row["speedup"] * (1 if factor > 1 else -1) < (1 if factor > 1 else -1) - SLACK
            assert not worse, (resource, factor, row["speedup"])
    plain = compile_model(head_model(), package(kind), WHOLE)
    assert found.simulation is not None
    assert plain.simulation is not None
    assert found.simulation.period_s < 0.8 * plain.simulation.period_s
    # What was chosen is an option of the pipeline: the same compile without sensitivities.
    assert "parallelize{sram_mib=1.25,search=false}" in found.pipeline
    # A level that searches divisions finds one by itself that is as fast.
    searched = compile_model(head_model(), package(kind), OPTIONS).simulation
    assert searched is not None
    assert searched.period_s <= found.simulation.period_s * (1 + SLACK)
    assert check_folder(tmp_path / "out").holds


@pytest.mark.parametrize(
    ("name", "target", "chosen"), [("bert-tiny", "mcm16", "copies"), ("lstm-lm", "mcm16", "rows")]
)
def test_half_of_a_resource_is_never_faster(
    name: str, target: str, chosen: str, tmp_path: Path
) -> None:
    """Fewer chips have more ops copied, and a smaller array fills sooner."""
    given = WHOLE if chosen == "copies" else OPTIONS
    found = compile_model(f"zoo:{name}", target, given, output=tmp_path / "out", sensitivities=True)
    for row in found.sensitivities or ():
        assert "not_comparable" not in row
        if row["speedup"] is not None:
            assert (row["speedup"] - 1.0) * (row["factor"] - 1.0) >= -SLACK, row
    if chosen == "copies":
        assert "parallelize{chips=8,search=false}" in found.pipeline
    else:
        assert found.options.cost_model == found.target.cost_model().name == "cycles{rows=0.5}"
    assert check_folder(tmp_path / "out").holds
    # What was chosen are options of the compile: the same without sensitivities.
    options = replace(given, passes=found.pipeline, cost_model=found.options.cost_model)
    again = compile_model(f"zoo:{name}", target, options)
    assert again.simulation is not None
    assert found.simulation is not None
    assert again.simulation.period_s <= found.simulation.period_s * (1 + SLACK)


def test_a_package_of_fabrics_is_monotone() -> None:
    """Each of 4 fabrics has 8 x 8 units; each change is laid out and measured on its own."""
    text = load_target("mcm36-fabric").source_text.replace("num_chips = 36", "num_chips = 4")
    target = target_from_text("fabrics", re.sub(r"(rows|cols) = 16", r"\1 = 8", text))
    passes = CompileOptions().passes.partition(",emit")[0]
    model = "zoo:plain-cnn{image_size=16,stages=2,blocks=2,width=8,batch=2,classes=10}"
    options = replace(OPTIONS, level=0, passes=passes)
    found = compile_model(model, target, options, sensitivities=True)
    rows = found.sensitivities or ()
    assert {row["resource"] for row in rows} >= {"compute array", "vector lanes", "SRAM", "chips"}
    for row in rows:
        assert row["speedup"] is not None, row
        assert (row["speedup"] - 1.0) * (row["factor"] - 1.0) >= -SLACK, row
    assert any(row["speedup"] != 1.0 for row in rows)


def test_sweeps_are_monotone_along_each_axis() -> None:
    sweeps = ("chip.sram_mib=1.25,2.5,5", "chip.mac_array.rows=48,64,128", "host.latency_us=2,1")
    target = package("ring")
    assert isinstance(target, OrdersKeys)
    (model,) = explore("zoo:bert-tiny", target, ExploreOptions(sweeps), OPTIONS).data["models"]
    assert len(model["points"]) == 18
    pairs = 0
    for one, other in itertools.permutations(model["points"], 2):
        differ = [k for k, v in one["settings"].items() if v != other["settings"][k]]
        if len(differ) != 1:
            continue
        ours, theirs = (point["settings"][differ[0]] for point in (one, other))
        assert isinstance(ours, int | float)
        assert isinstance(theirs, int | float)
        if (ours > theirs) is target.ordered_keys[differ[0]] and other["period_s"] is not None:
            pairs += 1
            assert one["period_s"] is not None
            assert one["period_s"] <= other["period_s"] * (1 + SLACK), (differ, ours, theirs)
    assert pairs


def test_delays_are_better_if_less_and_ends_do_not_gain_chips() -> None:
    ring = package("ring")
    assert isinstance(ring, OrdersKeys)
    keys = ring.ordered_keys
    assert keys["link.bandwidth_gb_per_s"]
    assert keys["chip.vector_unit.lanes"]
    assert keys["package.num_chips"]
    assert not keys["link.hop_latency_us"]
    assert not keys["chip.launch_overhead_ns"]
    assert "package.channel_slots" not in keys  # more buffers take memory
    ends = changed_target(ring, {"package.host_io": "ends"}).target
    assert isinstance(ends, OrdersKeys)
    assert "package.num_chips" not in ends.ordered_keys


def test_what_a_target_has_more_can_stay_idle() -> None:
    def point(period_s: float, **more: Any) -> PlacedPoint:
        found: Any = {**failed_point(()), "period_s": period_s, "lower_bound_s": 1.0, **more}
        return found

    target = package("ring")
    slow, fast = point(4.0, chips=9), point(2.0, chips=1, lower_bound_s=1.5)
    assert no_slower(fast, slow, target) is fast
    found = no_slower(slow, fast, target)
    assert found["period_s"] == 2.0
    assert found.get("idle") is True
    # Its bound is its own, and so is what it consists of.
    assert (found["lower_bound_s"], found["gap"]) == (1.0, 1.0)
    assert found["chips"] == 4
    assert found["sram_bytes"] == 4 * int(2.5 * 2**20)
    assert no_slower(failed_point(()), fast, target)["faults"] == []


def test_the_bound_of_what_stays_idle_is_not_above_its_period() -> None:
    def point(period_s: float, bound_s: float | None, proof: str) -> PlacedPoint:
        found: Any = {**failed_point(()), "period_s": period_s}
        return {**found, "lower_bound_s": bound_s, "bound_proof": proof}

    target = package("ring")
    less = point(2.0, 1.8, "less")
    for bound_s, expected, proof in ((3.0, 1.8, "less"), (1.0, 1.0, "more"), (None, None, "more")):
        found = no_slower(point(4.0, bound_s, "more"), less, target)
        assert (found["lower_bound_s"], found["bound_proof"]) == (expected, proof)
        assert found["gap"] is None or found["gap"] >= 0.0
    unbounded = no_slower(point(4.0, 3.0, "more"), point(2.0, None, "less"), target)
    assert (unbounded["lower_bound_s"], unbounded["gap"]) == (None, None)


@pytest.mark.parametrize("code", ["MCM-U037", "MCM-U053", "MCM-X006"])
def test_a_compile_that_failed_for_a_moment_is_not_hidden_by_one_with_less(code: str) -> None:
    less: Any = {**failed_point(()), "period_s": 2.0}
    failed = failed_point((Diagnostic(code, "the system refuses a file"),))
    assert no_slower(failed, less, package("ring")) is failed


def test_a_slower_compile_for_the_target_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the chips seems faster, and the target does not get faster with its placement."""
    target = package("ring")

    def point(period_s: float) -> PlacedPoint:
        placed = {"replicas": 1, "chips": 4, "sram_bytes": 1, "chip_of": {"a": 0}, "copied": []}
        found: Any = {**failed_point(()), "period_s": period_s, "placement": placed}
        return found

    def found(_: Prepared, asked: Any, __: int) -> Iterator[tuple[int, PlacedPoint]]:
        for at, (one, _) in enumerate(asked):
            yield at, point(3.0 if one is target else 1.5 if one.limits.num_chips == 2 else 2.0)

    monkeypatch.setattr(sensitivities, "points_of", found)
    for options, why in (
        (OPTIONS, "no placement as fast was found"),
        (replace(OPTIONS, objective="latency"), "placements are not chosen for the period"),
    ):
        changed = Sensitivities(Prepared(head_model(), (), options), target)
        assert changed.settle(point(2.0)) is None
        rows = changed.rows(point(2.0))
        (half,) = [row for row in rows if (row["resource"], row["factor"]) == ("chips", 0.5)]
        assert half["speedup"] is None
        assert why in half.get("not_comparable", "")
        assert all(row["speedup"] == 1.0 for row in rows if row is not half)
        shown = sensitivity_table({"sensitivities": rows})
        assert f"not comparable (1.50 s): {why}" in shown[rows.index(half)][1]
