"""From the TOML description of a box to its numbers."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from mcm_compiler.components.cost_files import COST_TABLE
from mcm_compiler.contracts.boxes.box import Box
from mcm_compiler.diagnostics import CompileError, quote
from mcm_compiler.text.toml_description import parse_description
from mcm_hardware.descriptions.description_reader import DescriptionReader
from mcm_hardware.families.box.box_schema import (
    BOX_FORM,
    BOX_KEYS,
    DEVICE_KEYS,
    LINK_KEYS,
    MAX_DEVICES,
)
from mcm_hardware.families.box.device_kinds import (
    DeviceKind,
    built_in_kind,
    built_in_kinds,
    read_kind,
)

# They are part of names of files.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)


@dataclass(frozen=True, eq=False)
class BoxSpec:
    """What a description says.

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
        CompileError: with one diagnostic per fault: MCM-T001 not TOML, MCM-T002 unknown key,
            MCM-T003 missing key, MCM-T004 wrong type, MCM-T005 value out of range, MCM-T007 more
            faults than are listed, MCM-T008 contradiction, MCM-T006 and MCM-T016 for names of
            types and ops that there are not, MCM-D003 for a kind that there is not, MCM-D070 for
            cost models of kinds that the box does not have.
    """
    description = parse_description(name, text)
    reader = DescriptionReader(description, BOX_FORM)
    values = reader.read(description.data, BOX_KEYS)
    described = _described_kinds(reader, description.data)
    counts = _devices(reader, description.data, described)
    if faults := reader.faults:
        raise CompileError(faults)
    box = _linked(reader, description.data, _box(values, counts))
    _check_cost_models(reader, description.data, box)
    if faults := reader.faults:
        raise CompileError(faults)
    return BoxSpec(values["summary"], tuple(counts), box)


def _check_cost_models(reader: DescriptionReader, data: Mapping[str, Any], box: Box) -> None:
    """Notes what is wrong with the table `[cost]`, whose keys are kinds of devices."""
    table = data.get(COST_TABLE)
    # One that is no table was noted before.
    for kind, model in cast("dict[str, Any]", table if isinstance(table, dict) else {}).items():
        if kind not in box.kinds:
            message = f"the box has no kind of device {quote(kind)}"
            hint = f"it has {', '.join(map(quote, box.kinds))}"
            reader.fault("MCM-D070", message, (COST_TABLE, kind), hint)
        elif not isinstance(model, str):
            reader.wrong_type((COST_TABLE, kind), model, "a text")


def _described_kinds(
    reader: DescriptionReader, data: Mapping[str, Any]
) -> dict[str, DeviceKind | None]:
    """The kinds below `[kind]`; None for one with faults."""
    tables = data.get("kind")
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
    reader: DescriptionReader,
    data: Mapping[str, Any],
    described: Mapping[str, DeviceKind | None],
) -> dict[DeviceKind, int]:
    """How many devices there are of each kind, in the order of the file."""
    entries = data.get("device")
    if not isinstance(entries, list) or not entries:
        message, hint = "a box has no devices", 'add [[device]] with kind = "..."'
        reader.fault("MCM-T003", message, ("device",), hint)
        return {}
    counts: dict[DeviceKind, int] = {}
    total = 0
    for index, entry in enumerate(cast("list[Any]", entries)):
        if not isinstance(entry, dict):
            reader.wrong_type(("device", index), entry, "a table")
            continue
        values = reader.read(cast("dict[str, Any]", entry), DEVICE_KEYS, ("device", index))
        count = values.get("count", 0)
        total += count
        kind = _kind(reader, values["kind"], index, described) if "kind" in values else None
        if kind is not None:
            counts[kind] = counts.get(kind, 0) + count
    if total > MAX_DEVICES:
        message = f"{total} devices are more than {MAX_DEVICES}"
        reader.fault("MCM-T005", message, ("device",), "describe a smaller box")
    return counts


def _kind(
    reader: DescriptionReader,
    name: str,
    index: int,
    described: Mapping[str, DeviceKind | None],
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
    reader.fault("MCM-D003", message, ("device", index, "kind"), hint)
    return None


def _box(values: Mapping[str, Any], counts: Mapping[DeviceKind, int]) -> Box:
    kinds = list(counts)
    kind_of = np.repeat(np.arange(len(kinds), dtype=np.int32), [counts[kind] for kind in kinds])
    names: list[str] = []
    for kind in kind_of.tolist():
        role = kinds[kind].role
        names.append(f"{role}:{sum(name.startswith(role) for name in names)}")
    host = next((d for d, name in enumerate(names) if name.startswith("cpu")), 0)
    devices = len(names)
    rate = np.full((devices, devices), values["copy.device_bandwidth_gb_per_s"] * 1e9)
    rate[host, :] = rate[:, host] = values["copy.host_bandwidth_gb_per_s"] * 1e9
    latency = np.full((devices, devices), values["copy.latency_us"] * 1e-6)
    np.fill_diagonal(rate, np.inf)
    np.fill_diagonal(latency, 0.0)
    return Box(
        kinds=tuple(kind.name for kind in kinds),
        devices=tuple(names),
        kind_of=kind_of,
        memory_bytes=np.array([kinds[kind].memory_bytes for kind in kind_of.tolist()], np.int64),
        copy_bytes_per_s=rate,
        copy_latency_s=latency,
        host=host,
    )


def _linked(reader: DescriptionReader, data: Mapping[str, Any], box: Box) -> Box:
    """The box with its links, of which the later ones win."""
    entries = data.get("link", [])
    if not isinstance(entries, list):
        reader.wrong_type(("link",), entries, "an array of tables")
        return box
    rate, latency = box.copy_bytes_per_s.copy(), box.copy_latency_s.copy()
    for index, entry in enumerate(cast("list[Any]", entries)):
        at = ("link", index)
        if not isinstance(entry, dict):
            reader.wrong_type(at, entry, "a table")
            continue
        values = reader.read(cast("dict[str, Any]", entry), LINK_KEYS, at)
        pair = cast("list[Any]", values.get("between", []))
        places = [box.devices.index(name) for name in pair if name in box.devices]
        if "between" in values and (len(pair) != 2 or len(set(places)) != 2):
            known = ", ".join(box.devices)
            message = "a link joins two devices of the box"
            reader.fault("MCM-T008", message, (*at, "between"), f"its devices are {known}")
        elif "between" in values and "bandwidth_gb_per_s" in values:
            for a, b in (places, places[::-1]):
                rate[a, b] = values["bandwidth_gb_per_s"] * 1e9
                latency[a, b] = values.get("latency_us", latency[a, b] * 1e6) * 1e-6
    return replace(box, copy_bytes_per_s=rate, copy_latency_s=latency)
