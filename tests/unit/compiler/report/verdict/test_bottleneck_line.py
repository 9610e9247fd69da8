"""The bottleneck, idle chips and levers in a line each."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from mcm_compiler.contracts.program import ChipProgram, Kernel
from mcm_compiler.report.activity import heaviest_ops
from mcm_compiler.report.report_data import build_report
from mcm_compiler.report.sentences import kernel_phrase
from tests.generators.example_result import example_result
from tests.unit.compiler.report.verdict.test_claims import line, text


@pytest.fixture
def report():
    return dict(build_report(example_result()))


def test_a_chip_is_named_with_its_engine_and_its_largest_kernel(report):
    assert line(report, "limited by")["headline"] == (
        "MAC array: chip 1 99.9 % busy, of which MAC array 50.0 %, kernel launches 25.0 %, "
        "vector unit 25.0 %"
    )
    took = "60.9 us, 48.8 % of the chip's work"
    assert f"largest kernel MatMul+Relu of 'layer1.1': {took}" in text(report, "limited by")
    (op, *_) = report["bottleneck"]["heaviest_ops"]
    del op["kinds"]  # as in reports of earlier releases
    assert f"kernel 2 fused ops up to 'layer1.1': {took}" in text(report, "limited by")


@pytest.mark.parametrize(
    ("nodes", "phrase"),
    [
        ({"/l.0/c/Conv": "Conv"}, "'/l.0/c/Conv'"),
        ({"/l.0/c/Conv": "Conv", "/l.0/Add": "Add", "/l.0/r/Relu_1": "Relu"},
         "Conv+Add+Relu of '/l.0'"),
        ({"/l/Mul": "Mul", "/l/fc/MatMul/tile_0": "MatMul"}, "MatMul+Mul of '/l'"),
        ({"add": "Add", "conv": "Conv"}, "Conv+Add of 'conv'"),
        ({"/f/a": "Gemm", "/f/b": "Add", "/f/c": "Div", "/f/d": "Erf", "/f/e": "Mul"},
         "Gemm and 4 more ops of '/f'"),
    ],
)  # fmt: skip
def test_a_kernel_is_named_by_its_dominant_op_and_layer(nodes, phrase):
    kernel = Kernel(list(nodes)[-1], tuple(nodes), 1e-6, (), ())
    graph = ir.Graph(
        [], [], nodes=[ir.Node("", kind, [], name=name) for name, kind in nodes.items()]
    )
    (row,) = heaviest_ops(ChipProgram(0, (kernel,), (), 0, 0), 1, graph)
    assert kernel_phrase(row) == phrase


def test_a_link_is_named_with_its_largest_tensor(report):
    worst = dict(report["bottleneck"], kind="link", chip=None, source=0, destination=1)
    worst |= {"heaviest_ops": [], "heaviest_tensors": [{"name": "h0", "bytes": 1 << 20}]}
    found = text({**report, "bottleneck": worst}, "limited by")
    assert found == "the link from chip 0 to chip 1 99.9 % busy; largest tensor 'h0': 1.0 MiB"


def test_back_pressure_is_named(report):
    worst = dict(report["bottleneck"], sets_period=False)
    found = text({**report, "bottleneck": worst}, "limited by")
    assert found.startswith("back-pressure: full buffers stall the chips; busiest: chip 1 99.9 %")


def test_chips_that_are_hardly_less_busy_are_counted(report):
    shares = (0.96, 1.0, 0.5)
    rows = [
        dict(row, utilisation=share) for row, share in zip(report["chips"], shares, strict=True)
    ]
    assert "2 chips above 95.0 %" in text({**report, "chips": rows}, "limited by")
    full = [dict(row, utilisation=1.0) for row in rows]
    found = line({**report, "chips": full}, "limited by")
    assert found["headline"] == "MAC array: 3 of 3 chips 100.0 % busy"
    rows[0]["utilisation"] = 0.997
    found = line({**report, "chips": rows}, "limited by")
    assert found["headline"] == "MAC array: 2 of 3 chips above 99.5 % busy"
    assert "above" not in " ".join(found["details"])


def test_replicas_are_limited_alike(report):
    replicas = dict(report["replication"] or {}, replicas=4, chips_each=3, considered=[], chips=[])
    several = {**report, "replication": replicas}
    assert "chip 1 of each replica" in text(several, "limited by")
    replicas["chips_each"] = 1
    assert "every chip" in text(several, "limited by")


def test_idle_chips_are_named_with_what_they_hold(report):
    found = text({**report, "target": {**report["target"], "chips": 5}}, "idle")
    assert "chip 0 is idle 52.0 % of the time, its SRAM holds 12.0 MiB of 64.0 MiB" in found
    assert "2 chips of 5 unused" in found
    busy = [dict(row, utilisation=0.9) for row in report["chips"]]
    assert line({**report, "chips": busy}, "idle") is None


def row(resource, factor, speedup):
    return {"resource": resource, "factor": factor, "speedup": speedup, "faults": [], "keys": {}}


def test_the_change_that_brings_most_comes_first_then_what_has_no_effect(report):
    rows = [row("lanes", 2.0, 1.01), row("array", 2.0, 1.62), row("SRAM", 2.0, 1.05)]
    rows += [row("SRAM", 0.5, None), row("link", 2.0, 1.0)]
    found = text({**report, "sensitivities": rows}, "next")
    assert found == "2x array: 1.62x; 2x SRAM: 1.05x; no effect: lanes, link"
    alone = text({**report, "sensitivities": rows[:1]}, "next")
    assert alone == "no single resource helps; no effect: lanes"
    assert line(report, "next") is None
