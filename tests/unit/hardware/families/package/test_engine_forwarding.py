"""Packages whose engines pass tensors on: a one-way line is the ring of the family `ring`."""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from mcm_compiler.api import load_target
from mcm_compiler.cli.main import cli
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.machines.machine import HOST, HOST_ROOT, MachineError
from mcm_compiler.machines.machine_builder import MachineBuilder
from mcm_hardware.families.package.package_target import TopologyPackage, mesh36
from mcm_hardware.families.ring.ring_target import RingTarget
from mcm_passes.mapping.models import evaluate, mapping_of
from tests.generators.partition_problems import make_problem, problems

CHIPS = 5
HEAD, _, REST = mesh36().source_text.partition("[topology]")
REST = REST[REST.index("[chip]") :]
RING_TEXT = load_target("mcm36").source_text.replace("num_chips = 36", f"num_chips = {CHIPS}")


def package(topology: str, host_io: str = "any", total: float = 0.0) -> TopologyPackage:
    head = HEAD.replace("channel_slots = 2", f'channel_slots = 2\nhost_io = "{host_io}"')
    text = f"{head}[topology]\n{topology}\n\n{REST}"
    return TopologyPackage.from_text("mine", _with_total(text, total))


def ring(host_io: str, total: float = 0.0) -> RingTarget:
    text = RING_TEXT.replace('host_io = "any"', f'host_io = "{host_io}"')
    return RingTarget.from_text("ring", _with_total(text, total))


def _with_total(text: str, total: float) -> str:
    if not total:
        return text
    return text.replace("[host]", f"[host]\ntotal_bandwidth_gb_per_s = {total}")


LINE = f'kind = "line"\nsize = [{CHIPS}]\ntwo_way = false\nforwarding = "engine"'
CIRCLE = f'kind = "ring"\nsize = [{CHIPS}]\ntwo_way = false\nforwarding = "engine"'
MESH = package('kind = "mesh"\nsize = [2, 3]\nforwarding = "engine"')
TARGETS = {
    (host_io, total): (ring(host_io, total), package(LINE, host_io, total))
    for host_io in ("any", "ends")
    for total in (0.0, 40.0)
}


@settings(max_examples=40, deadline=None)
@given(problems(max_units=8), st.randoms(use_true_random=False), st.booleans())
def test_a_one_way_line_with_engines_costs_what_the_ring_does(problem, draw, need):
    problem = problem.at_need() if need else problem
    chips = np.array(sorted(draw.randrange(CHIPS) for _ in range(problem.num_units)), np.int32)
    for (host_io, total), (one, other) in TARGETS.items():
        along = replace(problem, limits=one.limits, routing="relay")
        routed = replace(
            problem, limits=other.limits, routing="strict", given_machine=other.machine
        )
        costs, found = evaluate(along, chips), evaluate(routed, chips)
        case = f"{host_io} {total}"
        assert found.chip_busy_s.tolist() == costs.chip_busy_s.tolist(), case
        assert found.memory_bytes.tolist() == costs.memory_bytes.tolist(), case
        assert found.period_s == costs.period_s, case
        relays = mapping_of(routed).passed_on(routed, found.chip_of.tolist())
        assert [r for r in relays if r.passed] == [
            r for r in mapping_of(along).passed_on(along, costs.chip_of.tolist()) if r.passed
        ]


def by_hand(problem, machine, chip_of):
    """Seconds of each chip and bytes of each link, from trees of routes."""
    busy, link = dict.fromkeys(range(machine.num_devices), 0.0), {}
    for u, chip in enumerate(chip_of):
        busy[chip] += float(problem.compute_s[u])
    for t, maker in enumerate(problem.tensor_producer.tolist()):
        rows = problem.tensor_consumers[problem.tensor_ptr[t] : problem.tensor_ptr[t + 1]]
        wanted = {chip_of[u] for u in rows.tolist()}
        if maker < 0:
            continue
        ways = [machine.places(chip_of[maker], one) for one in wanted]
        hops = {hop for way in ways for hop in itertools.pairwise(way)}
        for hop in hops:
            link[hop] = link.get(hop, 0) + int(problem.tensor_bytes[t])
        for chip in {a for a, _ in hops} - {chip_of[maker]}:
            busy[chip] += float(problem.relay_s[t])
    return busy, link


@pytest.mark.parametrize("seed", range(20))
def test_engines_of_a_mesh_pass_on_along_trees_of_routes(seed):
    draw = random.Random(seed)
    machine = MESH.machine
    edges = [(u, v) for v in range(7) for u in range(v) if draw.random() < 0.4]
    problem = replace(
        make_problem([draw.randint(1, 9) for _ in range(7)], edges, chips=6, tensor_bytes=3000),
        limits=MESH.limits,
        routing="strict",
        given_machine=machine,
    )
    chips = [draw.randrange(6) for _ in range(7)]
    busy, link = by_hand(problem, machine, chips)
    found = evaluate(problem, np.array(chips, np.int32))
    assert found.chip_busy_s.tolist() == pytest.approx([busy[c] for c in range(6)])
    ends = machine.channel_ends.tolist()
    for channel, (a, b) in enumerate(ends):
        if min(a, b) >= 0:
            carried = found.channel_busy_s[channel] * machine.channel_bytes_per_s[channel]
            assert carried == pytest.approx(link.get((a, b), 0))
    passed = mapping_of(problem).passed_on(problem, chips)
    relays = sum(len(one.passed) for one in passed)
    own = sum(float(problem.compute_s[u]) for u in range(7))
    assert relays * float(problem.relay_s[0]) == pytest.approx(sum(busy.values()) - own)
    hops = set(link)
    circular = any(v.rule == "acyclic" for v in found.violations)
    assert circular == has_circle(hops)


def has_circle(hops) -> bool:
    left = {chip for hop in hops for chip in hop}
    while left:
        free = {c for c in left if not any(b == c and a in left for a, b in hops)}
        if not free:
            return True
        left -= free
    return False


def test_a_closed_one_way_ring_of_engines_needs_no_virtual_channels():
    assert package(CIRCLE).machine.places(3, 1) == (3, 4, 0, 1)
    with pytest.raises(MachineError):
        _ = package(CIRCLE.replace("engine", "router")).machine


def test_a_model_on_a_line_of_engines_takes_as_long_as_on_the_ring(tmp_path):
    periods = []
    for name, target in zip(("ring", "line"), TARGETS["ends", 0.0], strict=True):
        path, out = tmp_path / f"{name}.toml", tmp_path / name
        path.write_text(target.source_text)
        words = ["compile", "zoo:gpt2-tiny", "--target", str(path), "-o", str(out)]
        assert CliRunner().invoke(cli, [*words, "--replicas", "1"]).exit_code == 0
        checked = CliRunner().invoke(cli, ["check", str(out)])
        assert checked.exit_code == 0, checked.output
        report = json.loads((out / "report.json").read_text())
        periods.append((report["analytic_period_s"], report["period_s"]))
    assert periods[0] == periods[1]


def test_the_host_at_the_ends_and_what_all_chips_share_are_on_the_routes():
    machine = package(LINE, "ends", 40.0).machine
    inner = machine.channel_ends[list(machine.route(HOST, 2))].tolist()
    assert inner == [[HOST_ROOT, HOST], [HOST, 0], [0, 1], [1, 2]]
    outer = machine.channel_ends[list(machine.route(2, HOST))].tolist()
    assert outer == [[2, 3], [3, 4], [4, HOST], [HOST, HOST_ROOT]]
    assert machine.places(HOST, 4) == (4,)
    assert machine.places(0, HOST) == (0,)


def test_engines_need_routes_that_consist_of_those_to_the_chips_between():
    builder = MachineBuilder(4)
    ways = {(0, 1): [0], (1, 3): [1], (0, 2): [2], (2, 3): [3], (0, 3): [0, 1]}
    for a, b in ((0, 1), (1, 3), (0, 2), (2, 3)):
        builder.channel(a, b, 1e9)
    for (a, b), channels in ways.items():
        builder.route(a, b, channels)
    assert builder.machine("mine", [1] * 4, [1.0] * 4, relays=True).relays
    builder.channel(3, 0, 1e9)
    builder.route(3, 2, [4, 2])
    with pytest.raises(MachineError, match="from device 3 to device 2"):
        builder.machine("mine", [1] * 4, [1.0] * 4, relays=True)


def test_more_chips_than_routes_can_be_stored_for_are_refused_with_numbers():
    for topology in ('kind = "line"\nsize = [600]', 'kind = "mesh"\nsize = [32, 32]'):
        with pytest.raises(CompileError, match=r"stores a route for each pair .* 262,144"):
            package(topology)
    links = [[c, c + 1] for c in range(600)]
    with pytest.raises(CompileError, match=r"601 chips are more than 512"):
        package(f'kind = "links"\nlinks = {links}')


def test_chips_out_of_reach_of_a_host_at_the_ends_are_refused():
    with pytest.raises(CompileError, match=r"MCM-T008.*no route leads from chip 1 to chip 2"):
        _ = package('kind = "links"\nlinks = [[0, 1], [2, 1]]', "ends").machine
    with pytest.raises(CompileError, match="no route leads from chip 0 to chip 1"):
        _ = package('kind = "links"\nlinks = [[1, 0], [1, 2], [0, 2]]', "ends").machine
    assert package('kind = "links"\nlinks = [[0, 1], [2, 1]]').machine.num_devices == 3
