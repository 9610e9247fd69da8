"""Machines as arrays: what they tell, and which are refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mcm_compiler.machines.machine import (
    HOST,
    HOST_ROOT,
    OFF_PACKAGE,
    Machine,
    MachineError,
    place_text,
    route_row,
    same_machine,
)
from mcm_compiler.machines.machine_builder import MachineBuilder
from mcm_compiler.machines.routes import Routes, routes_of


def line(builder: MachineBuilder | None = None) -> MachineBuilder:
    """Three devices in a row, links both ways; the host at device 0, memory at device 2."""
    links = builder or MachineBuilder(3)
    forth = [links.channel(c, c + 1, 2.0, 0.5) for c in (0, 1)]
    back = [links.channel(c + 1, c, 2.0, 0.5) for c in (0, 1)]
    links.route(0, 1, forth[:1])
    links.route(0, 2, forth)
    links.route(1, 2, forth[1:])
    links.route(1, 0, back[:1])
    links.route(2, 1, back[1:])
    links.route(2, 0, back[::-1])
    into, out = links.channel(HOST, 0, 4.0), links.channel(0, HOST, 4.0)
    links.route(HOST, 0, [into])
    links.route(HOST, 1, [into, forth[0]])
    links.route(1, HOST, [back[0], out])
    return links


def made(links: MachineBuilder) -> Machine:
    return links.machine("line", [64] * 3, [1.0] * 3)


LINE = made(line())


def refused(**changes: object) -> MachineError:
    with pytest.raises(MachineError) as caught:
        replace(LINE, **changes)
    return caught.value


def test_routes_are_found_by_their_ends():
    assert LINE.num_devices == 3
    assert LINE.num_channels == 6
    assert LINE.route(0, 2) == (0, 1)
    assert LINE.route(2, 0) == (3, 2)
    assert LINE.route(HOST, 1) == (4, 0)
    assert LINE.route(1, HOST) == (2, 5)
    assert LINE.route(2, HOST) == ()
    assert LINE.route(1, 1) == ()
    with pytest.raises(ValueError, match="nothing leads from place 0 to place 3"):
        LINE.route(0, 3)
    with pytest.raises(ValueError, match="nothing leads from place -2 to place -1"):
        LINE.route(OFF_PACKAGE, HOST)


def test_places_are_the_devices_on_the_way():
    assert LINE.places(2, 0) == (2, 1, 0)
    assert LINE.places(HOST, 1) == (0, 1)
    assert LINE.places(1, HOST) == (1, 0)
    assert LINE.places(1, 1) == (1,)
    assert LINE.places(HOST, 2) == ()
    assert [place_text(p, "chip") for p in (HOST, OFF_PACKAGE, 2)] == [
        "the host", "off-package memory", "chip 2"
    ]  # fmt: skip


def test_what_reaches_what():
    assert LINE.reaches.all()
    one_way = MachineBuilder(2)
    one_way.route(0, 1, [one_way.channel(0, 1, 1.0)])
    machine = one_way.machine("pair", [1, 1], [1.0, 1.0])
    assert machine.reaches.tolist() == [[True, True], [False, True]]
    assert not machine.streams


def test_a_machine_streams_where_memory_reaches_a_device():
    links = line()
    links.route(OFF_PACKAGE, 2, [links.channel(OFF_PACKAGE, 2, 1.0)])
    assert made(links).streams
    assert not LINE.streams


def test_arrays_are_read_only():
    for array in (LINE.channel_bytes_per_s, LINE.memory_bytes, *LINE.routes):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_a_channel_that_several_routes_share_may_have_a_root_in_front():
    links = MachineBuilder(2)
    root = links.channel(HOST_ROOT, HOST, 1.0)
    for device in range(2):
        links.route(HOST, device, [root, links.channel(HOST, device, 1.0)])
    machine = links.machine("pair", [1, 1], [1.0, 1.0])
    assert machine.places(HOST, 1) == (1,)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"speed": np.ones(2)}, "speed is [2], not [3]"),
        ({"channel_ends": np.zeros((6, 3), np.int32)}, "channel_ends is [6, 3], not [6, 2]"),
        ({"channel_latency_s": np.zeros(5)}, "channel_latency_s is [5], not [6]"),
        ({"channel_cuts": np.zeros(0, np.bool_)}, "channel_cuts is [0], not [6]"),
        ({"routes": routes_of([()] * 9)}, "routes is [9], not [18]"),
        ({"speed": np.array([1.0, 0.0, 1.0])}, "a speed is not positive and finite"),
        ({"speed": np.array([1.0, np.nan, 1.0])}, "a speed is not positive and finite"),
        ({"channel_bytes_per_s": np.zeros(6)}, "a rate is not positive"),
        ({"channel_bytes_per_s": np.full(6, np.nan)}, "a rate is not positive"),
        ({"channel_latency_s": np.full(6, -1.0)}, "a latency is negative or infinite"),
        ({"channel_latency_s": np.full(6, np.inf)}, "a latency is negative or infinite"),
        (
            {"channel_ends": np.full((6, 2), 3, np.int32)},
            "a channel ends at none of the 3 devices, host and memory",
        ),
        (
            {"channel_ends": np.full((6, 2), -5, np.int32)},
            "a channel ends at none of the 3 devices, host and memory",
        ),
        (
            {"routes": LINE.routes._replace(channels=LINE.routes.channels + 6)},
            "a route names none of the 6 channels",
        ),
        (
            {"routes": LINE.routes._replace(end=LINE.routes.end + 100)},
            "a route begins or ends outside of the channels of all routes",
        ),
        (
            {"routes": LINE.routes._replace(begin=LINE.routes.end + 1)},
            "a route begins or ends outside of the channels of all routes",
        ),
    ],
)
def test_numbers_that_no_machine_has_are_refused(changes, fault):
    error = refused(**changes)
    assert fault in error.faults
    assert not error.circular


def test_a_machine_has_a_device():
    with pytest.raises(MachineError, match="there is no device"):
        MachineBuilder(0).machine("nothing", [], [])


def with_route(source: int, destination: int, *channels: int) -> MachineError:
    links = line()
    links.route(source, destination, channels)
    with pytest.raises(MachineError) as caught:
        made(links)
    return caught.value


@pytest.mark.parametrize(
    ("source", "destination", "channels", "way"),
    [
        (0, 2, (1,), "device 0 to device 2"),  # begins elsewhere
        (0, 2, (0,), "device 0 to device 2"),  # ends elsewhere
        (0, 2, (0, 3), "device 0 to device 2"),  # a gap
        (0, 1, (0, 1, 3), "device 0 to device 1"),  # device 1 twice
        (1, 2, (2, 0, 1), "device 1 to device 2"),  # comes back to where it began
        (1, 1, (1, 3), "device 1 to device 1"),
        (HOST, 1, (0,), "the host to device 1"),
        (1, HOST, (2,), "device 1 to the host"),
        (OFF_PACKAGE, 1, (4, 0), "off-package memory to device 1"),
    ],
)
def test_routes_lead_from_one_end_to_the_other(source, destination, channels, way):
    error = with_route(source, destination, *channels)
    assert error.faults == (f"the route from {way} does not lead there without a circle",)


def test_few_of_many_broken_routes_are_spelled_out():
    count = 6
    links = MachineBuilder(count)
    wrong = links.channel(0, 1, 1.0)
    for device in range(2, count):
        for other in range(2, count):
            links.route(device, other, [wrong])
    with pytest.raises(MachineError) as caught:
        links.machine("broken", [1] * count, [1.0] * count)
    assert len(caught.value.faults) == 5


def square(*turns: tuple[int, int, int]) -> MachineBuilder:
    """Devices 0 1 / 3 2 on a square, links both ways; routes of two hops by what they cross."""
    links = MachineBuilder(4)
    channel = {
        (a, b): links.channel(a, b, 1.0)
        for a in range(4)
        for b in ((a + 1) % 4, (a - 1) % 4)
    }  # fmt: skip
    for (a, b), index in channel.items():
        links.route(a, b, [index])
    for a, via, b in turns:
        links.route(a, b, [channel[a, via], channel[via, b]])
    return links


def test_a_circle_of_routes_is_named():
    with pytest.raises(MachineError) as caught:
        square((0, 1, 2), (1, 2, 3), (2, 3, 0), (3, 0, 1)).machine("square", [1] * 4, [1.0] * 4)
    assert caught.value.circular
    (fault,) = caught.value.faults
    told, _, way = fault.partition(" channels ")
    assert told == "routes wait for each other in a circle over the"
    steps = [tuple(map(int, step.split(" to "))) for step in way.split(" -> ")]
    assert sorted(steps) == [(0, 1), (1, 2), (2, 3), (3, 0)]
    assert all(one[1] == other[0] for one, other in zip(steps, steps[1:] + steps[:1], strict=True))


def test_routes_that_take_rows_first_wait_in_no_circle():
    machine = square((0, 1, 2), (1, 0, 3), (2, 3, 0), (3, 2, 1)).machine("xy", [1] * 4, [1.0] * 4)
    assert machine.reaches.all()


def test_three_of_the_four_turns_close_no_circle():
    square((0, 1, 2), (1, 2, 3), (2, 3, 0)).machine("square", [1] * 4, [1.0] * 4)


def test_routes_that_share_channels_are_those_that_are_written_out():
    shared = Routes(
        np.array([0, 0, 1], np.int32), np.array([1, 2, 2], np.int32), np.array([5, 7], np.int32)
    )
    assert [shared.row(i).tolist() for i in range(shared.size)] == [[5], [5, 7], [7]]
    assert shared.lengths.tolist() == [1, 2, 1]


def test_what_follows_on_no_route_closes_no_circle():
    # 0 -> 1 and 1 -> 0 stand beside each other in the table, on routes of their own.
    pair = MachineBuilder(2)
    pair.route(0, 1, [pair.channel(0, 1, 1.0)])
    pair.route(1, 0, [pair.channel(1, 0, 1.0)])
    assert pair.machine("pair", [1, 1], [1.0, 1.0]).reaches.all()


def test_same_machine_compares_all_numbers():
    assert same_machine(LINE, made(line()))
    assert not same_machine(LINE, replace(LINE, channel_slots=3))
    assert not same_machine(LINE, replace(LINE, channel_bytes_per_s=np.full(6, 9.0)))


def test_rows_of_routes_are_numbered_as_the_contract_says():
    assert [route_row(LINE, *pair) for pair in ((0, 0), (2, 1), (HOST, 0), (2, HOST))] == [
        0, 7, 9, 14
    ]  # fmt: skip
    assert route_row(LINE, OFF_PACKAGE, 2) == 17
