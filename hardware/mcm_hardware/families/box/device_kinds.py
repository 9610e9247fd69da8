"""Kinds of devices: their numbers, what they can run, and the files of those that are built in."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.text.toml_description import KeyPath, parse_description
from mcm_hardware.descriptions.description_reader import DescriptionReader
from mcm_hardware.descriptions.support_keys import read_support
from mcm_hardware.families.box.box_schema import KIND_FORM, KIND_KEYS

if TYPE_CHECKING:
    from mcm_hardware.chip.op_support import OpSupport

_FOLDER = files("mcm_hardware.families.box") / "devices"


@dataclass(frozen=True)
class DeviceKind:
    """What devices of one kind are like.

    Attributes:
        name: of the kind, such as `k40`.
        role: `cpu`, `gpu` or `npu`.
        summary: one line, or `""`.
        memory_bytes: what a placement may use of a device's memory.
        memory_bytes_per_s: between a device and its memory.
        flops_per_s: arithmetic; a multiply-accumulate counts as two.
        launch_s: cost of starting one op.
        support: what they can run; None where they run everything.
    """

    name: str
    role: str
    summary: str
    memory_bytes: int
    memory_bytes_per_s: float
    flops_per_s: float
    launch_s: float
    support: OpSupport | None = None


def built_in_kinds() -> tuple[str, ...]:
    """Names of the kinds that come with the compiler, sorted."""
    names = (entry.name for entry in _FOLDER.iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml")))


@cache
def built_in_kind(name: str) -> DeviceKind:
    """The kind of the packaged file `devices/NAME.toml`; `name` is one of `built_in_kinds`."""
    text = (_FOLDER / f"{name}.toml").read_text(encoding="utf-8")
    description = parse_description(name, text)
    reader = DescriptionReader(description, KIND_FORM)
    kind = read_kind(reader, name, description.data, ())
    if kind is None or reader.faults:
        raise CompileError(reader.faults)
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
    reserved, memory = values.get("reserved_memory_mib", 0.0), values.get("memory_mib")
    if memory is not None and reserved >= memory:
        reader.fault(
            "MCM-T008",
            f"all memory of a device is reserved: {reserved:g} of {memory:g} MiB",
            (*at, "reserved_memory_mib"),
            "reserve less than memory_mib",
        )
    dotted = ".".join(map(str, at))
    prefix = f"{dotted}." if dotted else ""
    support = read_support(reader, {prefix + key: v for key, v in values.items()}, dotted)
    if any(key.required and path not in values for path, key in KIND_KEYS.items()):
        return None
    return DeviceKind(
        name=name,
        role=values["role"],
        summary=values.get("summary", ""),
        memory_bytes=math.floor((memory - reserved) * 2**20),
        memory_bytes_per_s=values["memory_bandwidth_gb_per_s"] * 1e9,
        flops_per_s=values["peak_tflop_per_s"] * 1e12,
        launch_s=values.get("launch_overhead_us", 0.0) * 1e-6,
        support=support,
    )
