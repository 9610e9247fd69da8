"""From the TOML description of a box to its numbers."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, cast

import numpy as np

from mcm_compiler.components.cost_files import COST_TABLE
from mcm_compiler.contracts.boxes.box import Box
from mcm_compiler.diagnostics import quote
from mcm_compiler.machines.machine_builder import joined_devices
from mcm_compiler.text.toml_description import KeyPath
from mcm_hardware.chip.chip_spec import DeviceNumbers
from mcm_hardware.descriptions.description_reader import DescriptionReader
from mcm_hardware.descriptions.device_keys import device_keys, read_device
from mcm_hardware.descriptions.support_keys import support_lists
from mcm_hardware.descriptions.target_schema import (
    BANDWIDTH,
    LATENCY_US,
    Choice,
    DescriptionForm,
    Key,
    Names,
    Number,
    Text,
    family_keys,
)

# They are part of names of files.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)


@dataclass(frozen=True, eq=False)
class BoxSpec:
    """Content of a description.

    Attributes:
        summary: one line, or `""`.
        kinds: those of the devices, in the order of `box.kinds`.
        box: the numbers that placements are made with.
    """

    summary: str
    kinds: tuple[DeviceKind, ...]
    box: Box


def parse_box(name: str, text: str) -> BoxSpec:
    """The box that a TOML text describes.

    Args:
        name: the file or target, for the place in diagnostics.
        text: the description; its keys are those of `box_schema`.

    Raises:
        CompileError: with one diagnostic per fault. MCM-T001 not TOML, MCM-T002 unknown key,
            MCM-T003 missing key, MCM-T004 wrong type, MCM-T005 value out of range, MCM-T007 more
            faults than are listed, MCM-T008 contradiction. MCM-T006 and MCM-T016 for unknown types
            and ops, MCM-D003 for an unknown kind, MCM-D070 for cost models of kinds that the box
            does not have.
    """
    reader = DescriptionReader(name, text, BOX_FORM)
    values = reader.values
    counts = _devices(reader, _described_kinds(reader))
    reader.refuse()
    box = _box(reader, counts)
    _check_cost_models(reader, box)
    reader.refuse()
    return BoxSpec(values["summary"], tuple(counts), box)


def _check_cost_models(reader: DescriptionReader, box: Box) -> None:
    """Notes what is wrong with the table `[cost]`, whose keys are kinds of devices."""
    table = reader.description.data.get(COST_TABLE)
    # One that is no table was noted before.
    for kind, model in cast("dict[str, Any]", table if isinstance(table, dict) else {}).items():
        if kind not in box.kinds:
            message = f"the host has no kind of device {quote(kind)}"
            hint = f"it has {', '.join(map(quote, box.kinds))}"
            reader.fault("MCM-D070", message, (COST_TABLE, kind), hint)
        elif not isinstance(model, str):
            reader.wrong_type((COST_TABLE, kind), model, "a text")


def _described_kinds(reader: DescriptionReader) -> dict[str, DeviceKind | None]:
    """The kinds below `[kind]`; None for one with faults."""
    tables = reader.description.data.get("kind")
    kinds: dict[str, DeviceKind | None] = {}
    for name, table in cast("dict[str, Any]", tables if isinstance(tables, dict) else {}).items():
        kinds[name] = None
        if not _NAME.fullmatch(name):
            reader.fault(
                "MCM-T005",
                f"{quote(name)} is no name of a kind",
                ("kind", name),
                "at most 64 letters, digits, `-` and `_`",
            )
        elif not isinstance(table, dict):
            reader.wrong_type(("kind", name), table, "a table")
        else:
            kinds[name] = read_kind(reader, name, cast("dict[str, Any]", table), ("kind", name))
    return kinds


def _devices(
    reader: DescriptionReader, described: Mapping[str, DeviceKind | None]
) -> dict[DeviceKind, int]:
    """How many devices there are of each kind, in the order of the file."""
    entries = reader.description.data.get("device")
    if not isinstance(entries, list) or not entries:
        message, hint = "a host has no devices", 'add [[device]] with kind = "..."'
        reader.fault("MCM-T003", message, ("device",), hint)
        return {}
    counts: dict[DeviceKind, int] = {}
    total = 0
    for at, entry in reader.tables("device"):
        values = reader.read(entry, DEVICE_KEYS, at)
        count = values.get("count", 0)
        total += count
        kind = _kind(reader, values["kind"], at, described) if "kind" in values else None
        if kind is not None:
            counts[kind] = counts.get(kind, 0) + count
    if total > MAX_DEVICES:
        message = f"{total} devices are more than {MAX_DEVICES}"
        reader.fault("MCM-T005", message, ("device",), "describe a smaller host")
    return counts


def _kind(
    reader: DescriptionReader, name: str, at: KeyPath, described: Mapping[str, DeviceKind | None]
) -> DeviceKind | None:
    if name in described:
        return described[name]
    known = built_in_kinds()
    if name in known:
        return built_in_kind(name)
    near = difflib.get_close_matches(name[:100], [*described, *known], n=1)
    hint = (
        f"did you mean '{near[0]}'?"
        if near
        else f"describe it below [kind.NAME], or take one of {', '.join(known)}"
    )
    message = f"there is no kind of device {quote(name)}"
    reader.fault("MCM-D003", message, (*at, "kind"), hint)
    return None


def _box(reader: DescriptionReader, counts: Mapping[DeviceKind, int]) -> Box:
    kinds = list(counts)
    kind_of = np.repeat(np.arange(len(kinds), dtype=np.int32), [counts[kind] for kind in kinds])
    names: list[str] = []
    for kind in kind_of.tolist():
        role = kinds[kind].role
        names.append(f"{role}:{sum(name.startswith(role) for name in names)}")
    host = next((d for d, name in enumerate(names) if name.startswith("cpu")), 0)
    devices = len(names)
    rate = np.full((devices, devices), reader.number("copy.device_bandwidth_gb_per_s", 1e9))
    rate[host, :] = rate[:, host] = reader.number("copy.host_bandwidth_gb_per_s", 1e9)
    latency = np.full((devices, devices), reader.number("copy.latency_us", 1e-6))
    for (a, b), link in _links(reader, names):
        rate[a, b] = link["bandwidth_gb_per_s"] * 1e9
        latency[a, b] = link.get("latency_us", latency[a, b] * 1e6) * 1e-6
    memory = np.array([kinds[kind].memory_bytes for kind in kind_of.tolist()], np.int64)
    machine = joined_devices("box", memory, rate, latency, kind_of)
    return Box(tuple(kind.name for kind in kinds), tuple(names), machine, host)


def _links(
    reader: DescriptionReader, devices: Sequence[str]
) -> Iterator[tuple[tuple[int, int], Mapping[str, Any]]]:
    """The two devices of each link, both ways, and its numbers; later links win."""
    for at, entry in reader.tables("link"):
        values = reader.read(entry, LINK_KEYS, at)
        pair = cast("list[Any]", values.get("between", []))
        places = [devices.index(name) for name in pair if name in devices]
        if "between" in values and (len(pair) != 2 or len(set(places)) != 2):
            known = ", ".join(devices)
            message = "a link joins two devices of the host"
            reader.fault("MCM-T008", message, (*at, "between"), f"its devices are {known}")
        elif "between" in values and "bandwidth_gb_per_s" in values:
            a, b = places
            yield from (((a, b), values), ((b, a), values))


MAX_DEVICES = 64
"""Of one box."""

KIND_KEYS: Mapping[str, Key] = {
    "role": Key(
        Choice(("cpu", "gpu", "npu")),
        "what devices of the kind are called, as in `gpu:0`; the first `cpu` is the host",
    ),
    "summary": Key(Text(), "one line about the kind", default=""),
    **device_keys("op"),
    **support_lists("such devices"),
}
"""Keys of a kind, in a file of its own or below `[kind.NAME]`."""

DEVICE_KEYS: Mapping[str, Key] = {
    "kind": Key(Text(), "name of a kind, below `[kind]` or of those that are built in"),
    "count": Key(Number(1, MAX_DEVICES, whole=True), "devices of it", default=1),
}
"""Keys of an entry of `[[device]]`."""

LINK_KEYS: Mapping[str, Key] = {
    "between": Key(Names("devices"), 'two devices, such as `["gpu:0", "gpu:1"]`'),
    "bandwidth_gb_per_s": Key(BANDWIDTH, "rate of copies between them, each way"),
    "latency_us": Key(
        LATENCY_US, "what such a copy takes besides", otherwise="that of other copies"
    ),
}
"""Keys of an entry of `[[link]]`: two devices that are joined otherwise than the rest."""

BOX_KEYS: Mapping[str, Key] = {
    **family_keys("box"),
    "copy.host_bandwidth_gb_per_s": Key(
        BANDWIDTH, "rate of copies between the host and another device, each way"
    ),
    "copy.device_bandwidth_gb_per_s": Key(
        BANDWIDTH, "rate of copies between two devices of which none is the host"
    ),
    "copy.latency_us": Key(
        LATENCY_US, "what every copy takes besides; its channel is busy meanwhile"
    ),
}
"""Keys of a box, but for its devices and kinds; units stand in the names."""

KIND_FORM = DescriptionForm("a kind of device", KIND_KEYS)
"""The form of a kind's own file."""

BOX_FORM = DescriptionForm(
    "a host",
    BOX_KEYS,
    free_tables=frozenset({"kind", COST_TABLE}),
    arrays=frozenset({"device", "link"}),
    part="a device, kind or link",
)
"""The form of the file of a box."""


_FOLDER = files("mcm_hardware.families.box") / "devices"


@dataclass(frozen=True, kw_only=True)
class DeviceKind(DeviceNumbers):
    """Numbers of devices of one kind.

    Attributes:
        name: of the kind, such as `k40`.
        role: `cpu`, `gpu` or `npu`.
        summary: one line, or `""`.
    """

    name: str
    role: str
    summary: str


def built_in_kinds() -> tuple[str, ...]:
    """Names of the kinds that come with the compiler, sorted."""
    names = (entry.name for entry in _FOLDER.iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml")))


@cache
def built_in_kind(name: str) -> DeviceKind:
    """The kind of the packaged file `devices/NAME.toml`; `name` is one of `built_in_kinds`."""
    text = (_FOLDER / f"{name}.toml").read_text(encoding="utf-8")
    reader = DescriptionReader(name, text, KIND_FORM)
    kind = read_kind(reader, name, reader.description.data, ())
    reader.refuse()
    assert kind is not None
    return kind


def read_kind(
    reader: DescriptionReader, name: str, table: Mapping[str, Any], at: KeyPath
) -> DeviceKind | None:
    """The kind that a table describes; None where numbers are missing. `reader` notes faults.

    Args:
        reader: of the file.
        name: of the kind.
        table: what the file holds at `at`.
        at: path of the table, of texts.
    """
    values = reader.read(table, KIND_KEYS, at)
    dotted = ".".join(map(str, at))
    prefix = f"{dotted}." if dotted else ""
    device = read_device(reader, {prefix + key: v for key, v in values.items()}, dotted)
    if device is None or "role" not in values:
        return None
    return DeviceKind(
        name=name, role=values["role"], summary=values.get("summary", ""), **vars(device)
    )
