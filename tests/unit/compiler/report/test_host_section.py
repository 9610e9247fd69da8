from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import onnx.parser
import onnx_ir as ir
import pytest

from mcm_compiler.contracts.program import LinkActivity
from mcm_compiler.machines.machine import HOST, HOST_ROOT
from mcm_compiler.report.host_section import (
    HOST_HEADS,
    HOST_SECTION,
    host_facts,
    host_sentences,
    host_table,
)
from mcm_hardware.families.ring.ring_target import RingTarget, mcm36_shared

LACKING = 'unsupported_ops = ["Erf"]\n[chip.mac_array]'


def target() -> RingTarget:
    text = mcm36_shared().source_text.replace("[chip.mac_array]", LACKING, 1)
    return RingTarget.from_text("lacking", text)


def graph(*ops: str) -> ir.Graph:
    body = " ".join(f"v{i + 1} = {op}(v{i})" for i, op in enumerate(ops))
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 17]>'
        f" m (float[64,100] v0) => (float[64,100] v{len(ops)}) {{ {body} }}"
    )
    found = ir.from_proto(onnx.shape_inference.infer_shapes(model)).graph
    for index, node in enumerate(found):
        node.name = f"n{index}"
    return found


def simulated(period_s: float, *links: LinkActivity) -> Any:
    return SimpleNamespace(period_s=period_s, links=links)


SIZE = 64 * 100 * 2


def test_trips_of_all_chips_and_the_chip_that_waits_longest():
    graphs = {0: graph("Relu", "Erf"), 1: graph("Erf", "Relu", "Erf")}
    found = host_facts(target(), graphs, simulated(1e-3), 1)
    assert found is not None
    (row,) = found["round_trips"]
    assert (row["ops"], row["trips"], row["up_bytes"]) == (["Erf"], 3, 3 * SIZE)
    assert (found["trips"], found["chip"]) == (3, 1)
    assert found["chip_s"] == pytest.approx(found["seconds"] * 2 / 3)
    assert found["share_of_period"] == pytest.approx(found["chip_s"] / 1e-3)
    (why,) = found["lacking"]
    assert (why["what"], why["ops"], why["first"]) == ("Erf", 3, ["n1", "n0", "n2"])


def test_a_channel_carries_transfers_and_trips():
    graphs = {0: graph("Erf"), 1: graph("Erf")}
    own = LinkActivity(HOST, 1, 5e-6, 1, 0.0)
    shared = LinkActivity(HOST_ROOT, HOST, 7e-6, 1, 0.0)
    alone = host_facts(target(), graphs, simulated(1e-4, own), 1)
    assert alone is not None
    assert alone["link_share"] == pytest.approx((5e-6 + SIZE / 32e9) / 1e-4)
    # All chips of three pipelines cross the shared channel of 64 GB/s.
    together = host_facts(target(), graphs, simulated(1e-4, own, shared), 3)
    assert together is not None
    assert together["link_share"] == pytest.approx((7e-6 + 6 * SIZE / 64e9) / 1e-4)


def test_nothing_is_said_where_chips_run_everything():
    assert host_facts(mcm36_shared(), {0: graph("Erf")}, simulated(1e-3), 1) is None
    assert host_facts(target(), {0: graph("Relu")}, simulated(1e-3), 1) is None
    assert host_sentences({}) == []
    assert host_table({}) == []


def test_what_cannot_be_kept_is_said():
    found = host_facts(target(), {0: graph("Erf")}, simulated(1e-7), 1)
    assert found is not None
    lacking, cost, link = host_sentences({HOST_SECTION: found})
    assert lacking == "chips lack Erf (1 op)"
    assert "12.5 KiB up and 12.5 KiB down" in cost
    assert "the period cannot be kept" in link
    (row,) = host_table({HOST_SECTION: found})
    assert len(row) == len(HOST_HEADS)
    assert row[:3] == ("Erf", "1", "12.5 KiB")


def test_without_a_simulation_there_are_no_shares():
    found = host_facts(target(), {0: graph("Erf")}, None, 1)
    assert found is not None
    assert (found["share_of_period"], found["link_share"]) == (None, None)
    assert len(host_sentences({HOST_SECTION: found})) == 2
