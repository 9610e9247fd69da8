"""The bound of latency: by hand on chains, and never above the best of all placements."""

from __future__ import annotations

import pytest

from mcm_compiler.placements.placement_file import placement_from_json
from mcm_passes.mapping.latency_placement import chain_bound as rules
from mcm_passes.mapping.latency_placement.chain_bound import chain_bound
from mcm_passes.mapping.latency_placement.latency_kernels import latency_arrays
from tests.generators.placement_examples import example, node, random_file
from tests.oracles.least_latency import least_latency


def bound_of(nodes, edges, **fields):
    return chain_bound(latency_arrays(example(nodes, edges, **fields)))


def row(count, **fields):
    nodes = [node(v, 2.0) for v in range(count)]
    return bound_of(nodes, [(v, v + 1, 0.5) for v in range(count - 1)], **fields)


def test_memory_forces_transfers_along_a_chain():
    # Four operators of one byte, two in each accelerator: one output is sent and received.
    assert row(4, maxSizePerFPGA=2.0).seconds == 8.0 + 2 * 0.5
    assert row(4, maxSizePerFPGA=2.0).proof == "chain"
    assert row(4, maxSizePerFPGA=4.0).seconds == 8.0


def test_too_few_accelerators_leave_work_to_the_cpu():
    # Two on the CPU take 20 each; in a row, one output is received.
    assert row(4, maxSizePerFPGA=2.0, maxFPGAs=1, maxCPUs=1).seconds == 4.0 + 0.5 + 40.0
    assert row(4, maxSizePerFPGA=2.0, maxFPGAs=1).seconds == float("inf")


def test_what_lies_between_links_is_cut_where_it_is_cheapest():
    # 0 feeds 1 and 2, which 3 reads: sending 1 and 2 takes 0.4, sending 0 alone 3.
    nodes = [node(v, 2.0, size=2.0 if v in {0, 3} else 0.0) for v in range(4)]
    edges = [(0, 1, 3.0), (0, 2, 3.0), (1, 3, 0.1), (2, 3, 0.3)]
    found = bound_of(nodes, edges, maxSizePerFPGA=2.0)
    assert found.seconds == pytest.approx(6.0 + 2 * 0.4)


@pytest.mark.parametrize("links", [3, 1000])
@pytest.mark.parametrize("seed", range(40))
def test_no_placement_is_below_the_bound(seed, links, monkeypatch):
    monkeypatch.setattr(rules, "MOST_LINKS", links)
    data = {**random_file(seed), "maxFPGAs": 2}
    arrays = latency_arrays(placement_from_json(data, "graph.json"))
    assert chain_bound(arrays).seconds <= least_latency(data) * (1.0 + 1e-9)


def test_the_work_of_all_devices():
    found = bound_of([node(v, 3.0) for v in range(4)], [], maxFPGAs=2)
    assert (found.seconds, found.proof) == (6.0, "total_work")
