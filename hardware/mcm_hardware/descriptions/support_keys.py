"""Supported ops and element types: the keys of a description that list them."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import onnx_ir as ir

from mcm_compiler.diagnostics import quote
from mcm_hardware.descriptions.target_schema import BANDWIDTH, LATENCY_US, Choice, Key, Names

if TYPE_CHECKING:
    from mcm_hardware.chip.op_support import OpSupport
    from mcm_hardware.descriptions.description_reader import DescriptionReader


def support_lists(who: str) -> dict[str, Key]:
    """The keys that list ops and element types, without their table.

    Args:
        who: they are about, such as `chips`.
    """
    every_op, every_type = f"{who} run every op", f"{who} know every type"
    return {
        "unsupported_ops": Key(
            Names("ops"),
            f'ops that {who} cannot run, such as `"Softmax"` or `"com.microsoft::Gelu"`',
            otherwise=every_op,
        ),
        "supported_ops": Key(Names("ops"), f"the only ops that {who} run", otherwise=every_op),
        "unsupported_types": Key(
            Names("element types"),
            f'element types that no tensor of {who} may have, such as `"float16"`',
            otherwise=every_type,
        ),
        "supported_types": Key(
            Names("element types"), "the only ones that they may have", otherwise=every_type
        ),
    }


def support_keys(table: str, who: str) -> dict[str, Key]:
    """Keys of what chips or devices cannot run, and of the host that does.

    Args:
        table: of the lists.
        who: they are about, such as `chips`.
    """
    return {
        **{f"{table}.{name}": key for name, key in support_lists(who).items()},
        "host.fallback": Key(
            Choice(("host", "error")),
            f"what becomes of what {who} cannot run: the host does, or the model is refused; "
            "`--fallback` wins",
            otherwise='`"host"`',
        ),
        "host.peak_tflop_per_s": Key(
            BANDWIDTH,
            "arithmetic rate of the host for what one of them leaves to it",
            otherwise="0.1",
        ),
        "host.memory_bandwidth_gb_per_s": Key(
            BANDWIDTH, "between the host and its memory, likewise for each of them", otherwise="20"
        ),
        "host.launch_overhead_us": Key(
            LATENCY_US, "cost of starting one op on the host", otherwise="5"
        ),
        "host.large_tables": Key(
            Choice(("chips", "host")),
            "place of tables from 1 MiB of which an inference reads at most 1 of 16 rows: the "
            f"{who}, or the host, which looks the rows up",
            otherwise='`"chips"`',
        ),
    }


HOST_KEYS = {
    "peak_tflop_per_s": ("ops_per_s", 1e12),
    "memory_bandwidth_gb_per_s": ("memory_bytes_per_s", 1e9),
    "launch_overhead_us": ("launch_s", 1e-6),
}
"""Numbers of the host: the field of `HostNumbers` and the unit of each."""

MAX_NAMES = 10_000
"""More ops than there are."""

_WORDS = {"FLOAT32": "FLOAT", "FLOAT64": "DOUBLE"}
_TYPES = {kind.name: kind for kind in ir.DataType if kind is not ir.DataType.UNDEFINED}


def read_support(
    reader: DescriptionReader, values: Mapping[str, Any], table: str, more: Iterable[str] = ()
) -> OpSupport | None:
    """Ops that chips can run; None where a description lists nothing. Faults are noted by `reader`.

    Args:
        reader: of the description.
        values: by dotted path, as it read them.
        table: the table of the lists.
        more: keys of `[host]` that mean nothing where nothing is listed, besides those of it here.
    """
    from mcm_hardware.chip.op_support import HostNumbers, OpSupport

    ops = _listed(reader, values, table, "ops")
    types = _listed(reader, values, table, "types")
    given = [key for key in ("fallback", *HOST_KEYS, *more) if f"host.{key}" in values]
    tables = values.get("host.large_tables", "chips")
    if ops is None and types is None and tables == "chips":
        for key in given:
            message = "every op runs here, so that nothing is left to the host"
            hint = f"list what does not run as unsupported_ops in [{table}], or leave this out"
            reader.fault("MCM-T008", message, ("host", key), hint)
        return None
    named, only_ops = _ops(reader, table, *ops) if ops else (frozenset[str](), False)
    kinds, only_types = (
        _types(reader, table, *types) if types else (frozenset[ir.DataType](), False)
    )
    host = HostNumbers(
        **{
            field: float(values[f"host.{key}"]) * unit
            for key, (field, unit) in HOST_KEYS.items()
            if key in given
        }
    )
    fallback = values.get("host.fallback", "host")
    return OpSupport(named, only_ops, kinds, only_types, fallback, host, tables)


def shared_support(kinds: Sequence[OpSupport | None]) -> OpSupport | None:
    """Support of chips of some kind; None where there is no kind, or one that runs everything."""
    from mcm_hardware.chip.op_support import SharedSupport

    listed = tuple(kind for kind in kinds if kind is not None)
    if not listed or len(listed) < len(kinds):
        return None
    return SharedSupport(fallback=listed[0].fallback, host=listed[0].host, kinds=listed)


def _listed(
    reader: DescriptionReader, values: Mapping[str, Any], table: str, what: str
) -> tuple[str, list[str]] | None:
    """The key that lists ops or types and its names, without those that are at fault."""
    keys = [key for key in (f"unsupported_{what}", f"supported_{what}") if _has(values, table, key)]
    if len(keys) == 2:
        message = f"what is not in supported_{what} is not supported: one of the two lists says all"
        hint = f"leave {keys[0]} or {keys[1]} out"
        reader.fault("MCM-T008", message, key_path(table, keys[0]), hint)
        return None
    if not keys:
        return None
    (key,) = keys
    listed = cast("list[Any]", values[".".join(key_path(table, key))])
    if not listed:
        reader.fault("MCM-T008", "the list names nothing", key_path(table, key), "leave it out")
    elif len(listed) > MAX_NAMES:
        reader.fault(
            "MCM-T005", f"{len(listed)} names are more than {MAX_NAMES}", key_path(table, key)
        )
        return key, []
    names: list[str] = []
    for name in listed:
        if not isinstance(name, str):
            reader.wrong_type(key_path(table, key), name, "a list of texts")
        elif name in names:
            reader.fault("MCM-T008", f"{quote(name)} is listed twice", key_path(table, key))
        else:
            names.append(name)
    return key, names


def _has(values: Mapping[str, Any], table: str, key: str) -> bool:
    return ".".join(key_path(table, key)) in values


def _types(
    reader: DescriptionReader, table: str, key: str, names: Iterable[str]
) -> tuple[frozenset[ir.DataType], bool]:
    found: set[ir.DataType] = set()
    for name in names:
        word = _WORDS.get(name.upper(), name.upper())
        if word in _TYPES:
            found.add(_TYPES[word])
        else:
            near = difflib.get_close_matches(word[:100], _TYPES, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"the types are {', '.join(_TYPES)}"
            reader.fault(
                "MCM-T006", f"{quote(name)} is not an ONNX element type", key_path(table, key), hint
            )
    return frozenset(found), key.startswith("supported")


def _ops(
    reader: DescriptionReader, table: str, key: str, names: Iterable[str]
) -> tuple[frozenset[str], bool]:
    from mcm_hardware.chip.op_support import RUNS_NOTHING

    found: set[str] = set()
    only = key.startswith("supported")
    for name in names:
        domain, _, op_type = name.rpartition("::")
        plain = op_type if domain in ("", "ai.onnx") else name
        known = _known_ops(domain)
        if not op_type or (known and op_type not in known):
            near = difflib.get_close_matches(op_type[:100], known, n=1)
            prefix = f"{domain}::" if domain else ""
            where = f"the domain {quote(domain)}" if prefix else "ONNX"
            hint = (
                f"did you mean '{prefix}{near[0]}'?"
                if near
                else "an op of another domain is written as 'com.microsoft::Gelu'"
            )
            reader.fault("MCM-T016", f"{where} has no op {quote(name)}", key_path(table, key), hint)
        elif plain in RUNS_NOTHING and not only:
            message = f"a chip cannot lack {quote(name)}: nothing runs for it, or a copy of bytes"
            reader.fault("MCM-T008", message, key_path(table, key), "leave it out")
        else:
            found.add(plain)
    return frozenset(found), only


@cache
def _known_ops(domain: str) -> frozenset[str]:
    """Op types of a domain; empty for one that only its maker knows."""
    import onnx.defs

    if domain == "com.microsoft":
        state: Any = importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state")
        schemas = cast("list[Any]", getattr(state, "get_all_operator_schema", list)())
        return frozenset(str(one.name) for one in schemas if one.domain == domain)
    wanted = "" if domain == "ai.onnx" else domain
    return frozenset(
        one.name for one in onnx.defs.get_all_schemas_with_history() if one.domain == wanted
    )


def key_path(table: str, key: str) -> tuple[str, ...]:
    """The path of a key: `table` may be dotted, or empty for the top of a file."""
    return (*(part for part in table.split(".") if part), key)
