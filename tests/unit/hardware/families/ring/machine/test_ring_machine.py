"""The ring as a machine: its routes, written out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mcm_compiler.machines.machine import HOST, HOST_ROOT, OFF_PACKAGE, OFF_PACKAGE_ROOT, Machine
from mcm_compiler.placements.ring_rules import COLLECTED, EVERYWHERE, FROM_HOST, TO_HOST
from mcm_hardware.families.ring.ring_machine import RingSpec, ring_machine
from mcm_hardware.families.ring.ring_target import RingTarget, mcm36
from tests.oracles.plain_routes import route


def ring(chips: int, **changes: object) -> RingSpec:
    reference = mcm36().spec.reference
    return replace(
        mcm36().spec,
        chips=(reference,) * chips,
        physical=tuple(range(chips)),
        hop_latency_s=tuple(1e-6 * (c + 1) for c in range(chips - 1)),
        **changes,
    )


def way(machine: Machine, source: int, destination: int) -> list[tuple[int, int]]:
    """The ends of the channels of a route."""
    return [tuple(machine.channel_ends[c].tolist()) for c in machine.route(source, destination)]


def along(first: int, last: int) -> list[tuple[int, int]]:
    return [(c, c + 1) for c in range(first, last)]


@pytest.mark.parametrize("chips", [1, 2, 3, 6])
@pytest.mark.parametrize("host_io", ["any", "ends"])
@pytest.mark.parametrize("shared", [0.0, 1e9])
def test_routes_lead_along_the_ring(chips, host_io, shared):
    spec = ring(
        chips,
        host_io=host_io,
        host_total_bytes_per_s=shared,
        stream_bytes_per_s=1e9,
        stream_total_bytes_per_s=shared,
    )
    machine = ring_machine(spec)
    into, out, memory = (
        ([(HOST_ROOT, HOST)], [(HOST, HOST_ROOT)], [(OFF_PACKAGE_ROOT, OFF_PACKAGE)])
        if shared
        else ([], [], [])
    )
    last = chips - 1
    for a in range(chips):
        for b in range(chips):
            assert way(machine, a, b) == along(a, b)
        # Only the ends: in by the first chip, unless it is for the last; out by the last one.
        enters = 0 if host_io == "ends" and a != last else a
        leaves = last if host_io == "ends" and a != 0 else a
        assert way(machine, HOST, a) == [*into, (HOST, enters), *along(enters, a)]
        assert way(machine, a, HOST) == [*along(a, leaves), (leaves, HOST), *out]
        assert way(machine, OFF_PACKAGE, a) == [*memory, (OFF_PACKAGE, a)]


@pytest.mark.parametrize("host_io", ["any", "ends"])
@pytest.mark.parametrize("chips", [1, 2, 3, 6])
def test_what_partitioning_takes_for_ways_are_the_routes(chips, host_io):
    target = RingTarget("r", ring(chips, host_io=host_io, host_latency_s=3e-6), "")
    machine, limits = target.machine, target.limits
    assert limits.latencies_s == tuple(machine.channel_latency_s[: chips - 1])
    assert (limits.last_chip, limits.host_latency_s) == (chips - 1, 3e-6)
    kind = 0 if limits.at_ends else EVERYWHERE
    for chip in range(chips):
        ways = (
            (route(FROM_HOST | kind, HOST, [chip], chips - 1, chips), machine.route(HOST, chip)),
            (
                route(TO_HOST | COLLECTED * limits.at_ends, chip, [], chips - 1, chips),
                machine.route(chip, HOST),
            ),
        )
        for told, real in ways:
            ports = [(HOST, c) for c in told.entered] + [(c, HOST) for c in told.exited]
            links = [(c, c + 1) for c in told.crossed]
            real_ends = [tuple(machine.channel_ends[c].tolist()) for c in real]
            assert sorted(ports + links) == sorted(real_ends)


@pytest.mark.parametrize(("first", "pipelines"), [(2, 1), (2, 2), (3, 2)])
def test_the_slowest_links_of_pipelines_count(first, pipelines):
    delays = (1e-6, 1e-6, 2e-6, 5e-6, 3e-6)
    limits = RingTarget("r", replace(ring(6), hop_latency_s=delays), "").limits.first(
        first, pipelines
    )
    shares = [delays[r * first :][: first - 1] for r in range(pipelines)]
    assert limits.latencies_s == tuple(map(max, zip(*shares, strict=True)))
    # What leaves at the end of the package crosses the links behind the chips that are used.
    ends = RingTarget("r", replace(ring(6, host_io="ends"), hop_latency_s=delays), "")
    assert ends.limits.first(first).latencies_s == delays
    assert ends.limits.first(first).last_chip == 5


def test_channels_have_the_numbers_of_the_package():
    spec = ring(3, switching="cut_through", host_latency_s=2e-6, stream_bytes_per_s=5e9)
    machine = ring_machine(spec)
    assert machine.num_channels == 2 + 3 * 3
    assert machine.channel_bytes_per_s.tolist() == [32e9] * 8 + [5e9] * 3
    assert machine.channel_latency_s.tolist() == [1e-6, 2e-6] + [2e-6] * 6 + [0.0] * 3
    # The gateways of the host store what they pass on.
    assert machine.channel_cuts.tolist() == [True] * 2 + [False] * 9


def test_no_weights_stream_without_memory_for_them():
    machine = ring_machine(ring(3))
    assert not machine.streams
    assert machine.route(OFF_PACKAGE, 1) == ()


def test_a_long_ring_takes_no_more_memory_than_the_ends_of_its_routes():
    machine = ring_machine(ring(512, host_io="ends"))
    assert machine.routes.size == 512 * 515
    assert len(machine.routes.channels) < 4 * 512
    assert machine.route(0, 511) == tuple(range(511))
