"""Placement problems as named arrays in certificates: storing and reading.

Fields are taken from the dataclasses themselves, so that one that is added goes along: arrays as
they are, texts as bytes with the end of each, numbers into the head. Names speak of units, devices,
channels, capacities and demands.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from mcm_compiler.contracts.partition import IN_A_WEIGHT, PartitionProblem
from mcm_compiler.contracts.target import PackageLimits
from mcm_compiler.machines.kind_costs import KindCosts, ViewCopies
from mcm_compiler.machines.machine import Machine
from mcm_compiler.machines.package_limits import UnitEnergies
from mcm_compiler.machines.routes import Routes
from mcm_compiler.text.json_text import Amount, Size, UnreadableError, record_of

Array = npt.NDArray[Any]

_DTYPES = {
    "Floats": np.float64,
    "Longs": np.int64,
    "Ints": np.int32,
    "Bools": np.bool_,
    "tuple[int, ...]": np.int64,
    "tuple[float, ...]": np.float64,
}
"""Element type by the annotation of a field."""

_NUMBERS: Mapping[str, Any] = {"int": Size, "float": Amount, "bool": bool}
"""Numbers of the head by the annotation of a field; texts have others."""

PROBLEM_NAMES = {
    "names": "unit.name",
    "members": "unit.members",
    "compute_s": "unit.work_s",
    "deviation_s": "unit.deviation_s",
    "clonable": "unit.copyable",
    "pinned_chip": "unit.fixed_device",
    "op_types": "unit.kind",
    "tensor_names": "tensor.name",
    "tensor_bytes": "tensor.bytes",
    "tensor_producer": "tensor.producer",
    "tensor_ptr": "tensor.reader_ptr",
    "tensor_consumers": "tensor.readers",
    "tensor_to_host": "tensor.to_host",
    "relay_s": "tensor.forward_s",
    "weight_names": "weight.name",
    "weight_bytes": "weight.bytes",
    "weight_ptr": "weight.user_ptr",
    "weight_users": "weight.users",
}
"""Name in the file of each field of `PartitionProblem`; another one is called `problem.<field>`."""

LIMIT_NAMES = {
    "num_chips": "devices",
    "sram_bytes": "device.memory_bytes",
    "chip_speed": "device.speed",
    "link_bytes_per_s": "channel_bytes_per_s",
    "hop_latency_s": "channel_latency_s",
    "host_io": "host_channels",
    "host_bytes_per_s": "host_bytes_per_s",
    "stream_bytes_per_s": "off_package_bytes_per_s",
    "host_total_bytes_per_s": "host_total_bytes_per_s",
    "stream_total_bytes_per_s": "off_package_total_bytes_per_s",
    "link_latency_s": "link.latency_s",
}
"""Name of each field of `PackageLimits`: an array, or a key of `machine` in the head."""


ABSENT_LIMITS: Mapping[str, Any] = {
    "host_total_bytes_per_s": 0.0,
    "stream_total_bytes_per_s": 0.0,
    "forwarding": "engine",
}
"""Fields of `PackageLimits` that are left out where they have this value, as in older files."""

SCHEMA_VERSION: Final = 2
"""Version of the files of a certificate; it states the fields of `LATER_LIMITS` always."""

LATER_LIMITS: Mapping[str, Any] = {
    "link_latency_s": (),
    "host_latency_s": 0.0,
    "cut_through": False,
}
"""Fields of `PackageLimits` that a file of version 1 may omit, as its release may not know them,
and their values there."""


class MalformedError(ValueError):
    """The data are no problem; the message says where."""


class _Layout(NamedTuple):
    """How the fields of a record are stored.

    Attributes:
        record: the dataclass.
        names: name in the file of each field.
        prefix: of the names of other fields.
        absent: fields that are left out where they have this value, as in older files.
        mark: the name that is in a file where the record is.
    """

    record: type[Any]
    names: Mapping[str, str]
    prefix: str = ""
    absent: Mapping[str, Any] = {}
    mark: str = ""

    def stored(self) -> Iterator[tuple[dataclasses.Field[Any], str]]:
        """The fields with their names in the file; `routing` is left to the head."""
        for field in dataclasses.fields(self.record):
            if field.name != "routing":
                yield field, self.names.get(field.name, f"{self.prefix}{field.name}")


ENERGY_ARRAYS = {"unit_j": "unit.energy_j", "relay_j": "tensor.forward_j"}
"""Name in the file of each array of `UnitEnergies`; its numbers are in the head as they are."""

KIND_NAMES = {
    "names": "kind.name",
    "unit_s": "kind.unit_s",
    "relay_s": "kind.forward_s",
    "runs": "kind.runs",
    "price": "kind.price",
}
"""Name in the file of each array of `KindCosts`."""

COPY_NAMES = {"tensor": "view.tensor", "writer": "view.writer", "seconds": "view.copy_s"}
"""Name in the file of each array of `ViewCopies`."""

_MACHINE_NAMES = {
    field.name: f"machine.{field.name}"
    for field in dataclasses.fields(Machine)
    if field.type not in ("str", *_NUMBERS)
} | {"routes": "machine.route"}
"""Name of each array of `Machine`; its numbers are in the head as they are."""

_LAYOUTS = {
    "PartitionProblem": _Layout(PartitionProblem, PROBLEM_NAMES, "problem."),
    "PackageLimits": _Layout(PackageLimits, LIMIT_NAMES, absent=ABSENT_LIMITS),
    "Machine": _Layout(
        Machine, _MACHINE_NAMES, absent={"router_buffers": False, "relays": False}, mark="family"
    ),
    "UnitEnergies": _Layout(UnitEnergies, ENERGY_ARRAYS, mark="link_byte_j"),
    "KindCosts": _Layout(KindCosts, KIND_NAMES, mark="kind.unit_s"),
    "ViewCopies": _Layout(ViewCopies, COPY_NAMES, mark="view.tensor"),
}
"""Records by the annotation of a field. Numbers that two of them share are stored once."""

_LEAST_PLACE = -4
"""Places of channels are stored above it, as arrays of indices have no number below -1."""


def problem_to_arrays(problem: PartitionProblem) -> tuple[dict[str, Array], dict[str, Any]]:
    """The arrays of a problem by name, and the numbers of its machine for the head.

    `routing` is left to the head as well.
    """
    arrays: dict[str, Array] = {}
    machine: dict[str, Any] = {}
    _put(arrays, machine, "", "PartitionProblem", problem)
    return arrays, machine


def _put(
    arrays: dict[str, Array], numbers: dict[str, Any], name: str, kind: str, value: Any
) -> None:
    kind = kind.removesuffix(" | None")
    if value is None:
        return
    if kind in _LAYOUTS:
        layout = _LAYOUTS[kind]
        for field, part_name in layout.stored():
            part = getattr(value, field.name)
            if field.name not in layout.absent or part != layout.absent[field.name]:
                _put(arrays, numbers, part_name, str(field.type), part)
    elif kind == "Routes":
        for end, part in zip(Routes._fields, value, strict=True):
            arrays[f"{name}_{end}"] = np.ascontiguousarray(part, np.int32)
    elif name == _MACHINE_NAMES["channel_ends"]:
        ends = value.astype(np.int64) - _LEAST_PLACE
        arrays["machine.channel_from"] = np.ascontiguousarray(ends[:, 0])
        arrays["machine.channel_to"] = np.ascontiguousarray(ends[:, 1])
    elif kind in _DTYPES:
        arrays[name] = np.ascontiguousarray(value, _DTYPES[kind])
    elif kind == "tuple[str, ...]":
        put_texts(arrays, name, value)
    elif kind == "tuple[tuple[str, ...], ...]":
        rows = cast("Sequence[Sequence[str]]", value)
        arrays[f"{name}.ptr"] = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        put_texts(arrays, name, [text for row in rows for text in row])
    else:
        numbers.setdefault(name, value)


def problem_from_arrays(
    arrays: Mapping[str, Array],
    machine: Mapping[str, Any],
    routing: str,
    version: int = SCHEMA_VERSION,
) -> PartitionProblem:
    """The problem of arrays that `problem_to_arrays` may have made, in a file of a schema version.

    Raises:
        MalformedError: for an array that is missing, of another type or rank, or out of range.
    """
    if version < SCHEMA_VERSION:
        omitted = {LIMIT_NAMES.get(field, field): value for field, value in LATER_LIMITS.items()}
        vectors = {name: np.array(v) for name, v in omitted.items() if isinstance(v, tuple)}
        arrays, machine = {**vectors, **arrays}, {**omitted, **machine}
    problem = _record(arrays, machine, "PartitionProblem", routing=routing)
    _check_sizes(problem)
    return problem


def _record(
    arrays: Mapping[str, Array], numbers: Mapping[str, Any], kind: str, **values: Any
) -> Any:
    layout = _LAYOUTS[kind]
    for field, name in layout.stored():
        if field.name in layout.absent and name not in numbers and name not in arrays:
            values[field.name] = layout.absent[field.name]
        else:
            values[field.name] = _get(arrays, numbers, name, str(field.type))
    try:
        return layout.record(**values)
    except ValueError as error:
        raise MalformedError(f"the machine makes no sense: {error}") from error


def _get(arrays: Mapping[str, Array], numbers: Mapping[str, Any], name: str, kind: str) -> Any:
    if kind.endswith(" | None"):
        kind = kind.removesuffix(" | None")
        mark = _LAYOUTS[kind].mark if kind in _LAYOUTS else name
        if mark not in numbers and mark not in arrays:
            return None
    if kind in _LAYOUTS:
        return _record(arrays, numbers, kind)
    if kind == "Routes":
        return Routes(*(vector(arrays, f"{name}_{end}", np.int32) for end in Routes._fields))
    if name == _MACHINE_NAMES["channel_ends"]:
        ends = [vector(arrays, f"machine.channel_{end}", np.int64) for end in ("from", "to")]
        if ends[0].size != ends[1].size or any(e.size and e.max() > 2**30 for e in ends):
            raise MalformedError("the arrays machine.channel_* are no ends of channels")
        return (np.stack(ends, axis=1) + _LEAST_PLACE).astype(np.int32)
    if kind in _DTYPES:
        found = vector(arrays, name, _DTYPES[kind])
        return tuple(found.tolist()) if kind.startswith("tuple") else found
    if kind == "tuple[str, ...]":
        return texts(arrays, name)
    if kind == "tuple[tuple[str, ...], ...]":
        flat = texts(arrays, name)
        ptr = vector(arrays, f"{name}.ptr", np.int64)
        _check_ptr(f"{name}.ptr", ptr, len(flat))
        ends = ptr.tolist()
        return tuple(flat[a:b] for a, b in pairwise(ends))
    if name not in numbers:
        raise MalformedError(f"machine.{name} is missing")
    try:
        return record_of(numbers[name], _NUMBERS.get(kind, str), f"machine.{name}")
    except UnreadableError as error:
        raise MalformedError(str(error)) from None


_LEAST = {"problem.tensor_alias": IN_A_WEIGHT}
"""Least entries of arrays that may hold less than others of their kind."""


def vector(arrays: Mapping[str, Array], name: str, dtype: Any) -> Array:
    """An array of one dimension.

    Raises:
        MalformedError: where it is missing, of another type or rank, not finite, or below what
            any of its kind may be.
    """
    found = arrays.get(name)
    if found is None:
        raise MalformedError(f"the array {name} is missing")
    if found.dtype != np.dtype(dtype) or found.ndim != 1:
        raise MalformedError(
            f"the array {name} is {found.dtype} with {found.ndim} dimensions, not "
            f"{np.dtype(dtype)} with 1"
        )
    if found.dtype == np.float64 and not np.isfinite(found).all():
        raise MalformedError(f"the array {name} holds a number that is not finite")
    least = _LEAST.get(name, -1 if found.dtype == np.int32 else 0)
    if found.dtype != np.bool_ and found.size and found.min() < least:
        raise MalformedError(f"the array {name} holds {found.min()}, less than {least}")
    return found


def put_texts(arrays: dict[str, Array], name: str, values: Sequence[str]) -> None:
    """Adds texts as bytes (`<name>.text`, UTF-8) with the end of each (`<name>.ends`)."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in values]
    arrays[f"{name}.text"] = np.frombuffer(b"".join(encoded), np.uint8)
    arrays[f"{name}.ends"] = np.cumsum([len(text) for text in encoded], dtype=np.int64)


def texts(arrays: Mapping[str, Array], name: str) -> tuple[str, ...]:
    """Read what `put_texts` added.

    Raises:
        MalformedError: where it is not such a list.
    """
    content = vector(arrays, f"{name}.text", np.uint8).tobytes()
    ends = vector(arrays, f"{name}.ends", np.int64)
    _check_ptr(f"{name}.ends", np.concatenate([[0], ends]), len(content))
    starts = [0, *ends.tolist()]
    try:
        return tuple(content[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(starts))
    except UnicodeDecodeError as error:
        raise MalformedError(f"the array {name}.text is not UTF-8") from error


def _check_ptr(name: str, ptr: Array, length: int) -> None:
    if not ptr.size or ptr[0] != 0 or ptr[-1] != length or (np.diff(ptr) < 0).any():
        raise MalformedError(f"the array {name} does not divide {length} entries")


def _check_sizes(p: PartitionProblem) -> None:
    """Lengths and indices of the fields that every reader of a problem relies on."""
    n, t, w = len(p.names), len(p.tensor_names), len(p.weight_names)
    devices = p.limits.num_chips
    lengths = {
        "members": n, "compute_s": n, "clonable": n, "pinned_chip": n,
        "tensor_bytes": t, "tensor_producer": t, "tensor_ptr": t + 1, "tensor_to_host": t,
        "relay_s": t, "weight_bytes": w, "weight_ptr": w + 1, "op_types": n if p.op_types else 0,
        "deviation_s": n,
    }  # fmt: skip
    for field, length in lengths.items():
        found = getattr(p, field)
        if found is not None and len(found) != length:
            message = f"the array {PROBLEM_NAMES[field]} has {len(found)} entries, not {length}"
            raise MalformedError(message)
    energy = p.energy
    if energy is not None and (energy.unit_j.size, energy.relay_j.size) != (n, t):
        raise MalformedError(f"the arrays of energies do not have {n} and {t} entries")
    _check_kinds(p, n, t)
    _check_copies(p, n, t)
    if len(p.limits.sram_bytes) != devices or len(p.limits.chip_speed) not in (0, devices):
        raise MalformedError(f"the arrays of devices do not have {devices} entries")
    links, least = len(p.limits.link_latency_s), devices - 1
    if links not in (0, least) and not (p.limits.at_ends and links > least):
        raise MalformedError(f"the array link.latency_s has {links} entries, not {least}")
    if devices < 1 or (p.limits.chip_speed and min(p.limits.chip_speed) <= 0):
        raise MalformedError("there is no device, or one without speed")
    _check_ptr("tensor.reader_ptr", p.tensor_ptr, p.tensor_consumers.size)
    _check_ptr("weight.user_ptr", p.weight_ptr, p.weight_users.size)
    for field in ("tensor_consumers", "weight_users", "tensor_producer"):
        array = getattr(p, field)
        least = -1 if field == "tensor_producer" else 0
        if array.size and not least <= int(array.min()) <= int(array.max()) < n:
            raise MalformedError(f"the array {PROBLEM_NAMES[field]} names no unit")
    if p.pinned_chip.size and int(p.pinned_chip.max()) >= devices:
        raise MalformedError("the array unit.fixed_device names no device")
    producers = np.repeat(p.tensor_producer, np.diff(p.tensor_ptr))
    if (producers >= p.tensor_consumers).any():
        raise MalformedError("a unit reads what one after it makes")


def _check_kinds(p: PartitionProblem, units: int, tensors: int) -> None:
    """Sizes of what differs between kinds of devices."""
    kind_of = None if p.on_ring else p.machine.device_kind
    if p.kinds is None:
        if kind_of is not None:
            raise MalformedError("the devices are of several kinds, and units have no times there")
        return
    count = len(p.kinds.names)
    if kind_of is None or (kind_of.size and int(kind_of.max()) >= count):
        raise MalformedError(f"the devices are not of the {count} kinds that units have times for")
    sizes = (p.kinds.unit_s.size, p.kinds.relay_s.size, p.kinds.runs.size)
    if sizes != (count * units, count * tensors, count * units):
        raise MalformedError(f"the arrays of kinds are not {count} times those of units")
    if p.kinds.price.size != count or not p.kinds.price.any():
        raise MalformedError(f"the array kind.price does not have {count} prices")


def _check_copies(p: PartitionProblem, units: int, tensors: int) -> None:
    """Sizes and indices of views that are copied."""
    copies = p.copies
    if copies is None:
        return
    kinds, count = 1 if p.kinds is None else len(p.kinds.names), copies.tensor.size
    if not count or (copies.writer.size, copies.seconds.size) != (count, kinds * count):
        raise MalformedError(f"the arrays of views are not for {count} tensors and {kinds} kinds")
    if int(copies.tensor.min()) < 0 or int(copies.tensor.max()) >= tensors:
        raise MalformedError("the array view.tensor names no tensor")
    made = p.tensor_producer[copies.tensor]
    if (np.diff(copies.tensor) <= 0).any() or (copies.writer >= made).any():
        raise MalformedError("the arrays of views are not in order")
    if p.clonable[made].any() or p.clonable[copies.writer[copies.writer >= 0]].any():
        raise MalformedError("a view that is copied belongs to a unit without a place of its own")
