"""Which keys descriptions of boxes and of device kinds have, and which values they take."""

from __future__ import annotations

from collections.abc import Mapping

from mcm_compiler.components.cost_files import COST_TABLE
from mcm_hardware.descriptions.support_keys import support_lists
from mcm_hardware.descriptions.target_schema import (
    Choice,
    DescriptionForm,
    Key,
    Names,
    Number,
    Text,
    tables_of,
)

_RATE = Number(1e-6, 1e6)
_LATENCY_US = Number(0.0, 1e6)

MAX_DEVICES = 64
"""Of one box."""

KIND_KEYS: Mapping[str, Key] = {
    "role": Key(
        Choice(("cpu", "gpu", "npu")),
        "what devices of the kind are called, as in `gpu:0`; the first `cpu` is the host",
    ),
    "summary": Key(Text(), "one line about the kind", default=""),
    "memory_mib": Key(Number(1.0, 2.0**24), "memory of one device"),
    "reserved_memory_mib": Key(
        Number(0.0, 2.0**24),
        "part of it that drivers and libraries keep for themselves",
        default=0.0,
    ),
    "memory_bandwidth_gb_per_s": Key(_RATE, "between a device and its memory"),
    "peak_tflop_per_s": Key(
        _RATE, "arithmetic rate of one device; a multiply-accumulate counts as two"
    ),
    "launch_overhead_us": Key(_LATENCY_US, "cost of starting one op", default=0.0),
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
    "bandwidth_gb_per_s": Key(_RATE, "rate of copies between them, each way"),
    "latency_us": Key(
        _LATENCY_US, "what such a copy takes besides", otherwise="that of other copies"
    ),
}
"""Keys of an entry of `[[link]]`: two devices that are joined otherwise than the rest."""

BOX_KEYS: Mapping[str, Key] = {
    "family": Key(Choice(("box",)), "which code reads the file"),
    "summary": Key(Text(), "the line in `mcmc targets`", default=""),
    "copy.host_bandwidth_gb_per_s": Key(
        _RATE, "rate of copies between the host and another device, each way"
    ),
    "copy.device_bandwidth_gb_per_s": Key(
        _RATE, "rate of copies between two devices of which none is the host"
    ),
    "copy.latency_us": Key(
        _LATENCY_US, "what every copy takes besides; its channel is busy meanwhile"
    ),
}
"""Keys of a box, but for its devices and kinds; units stand in the names."""

KIND_FORM = DescriptionForm("a kind of device", tables_of(KIND_KEYS))
"""The form of a kind's own file."""

BOX_FORM = DescriptionForm(
    "a box",
    tables_of(BOX_KEYS) | {"kind", COST_TABLE},
    free_tables=frozenset({"kind", COST_TABLE}),
    arrays=frozenset({"device", "link"}),
    part="a device, kind or link",
)
"""The form of the file of a box."""
