"""Profiles as cost models: the times of a kind of device become a table for the model `table`."""

from __future__ import annotations

import re
from collections.abc import Mapping

import onnx_ir as ir

from mcm_compiler.components import device_costs
from mcm_compiler.components.cost_files import held_files
from mcm_compiler.contracts.boxes.box import BoxTarget
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.text.spec_text import print_value

OPTION = "--profile"

OpSeconds = Mapping[str, float]
"""Seconds by the name of an op."""

_TO_QUOTE = re.compile(r'[",\r\n]')


def refuse_contradictions(
    target: BoxTarget, times: Mapping[str, OpSeconds], cost_models: Mapping[str, str]
) -> None:
    """Checks the kinds that profiles are of, before anything is read.

    Args:
        target: the box.
        times: of profiles, by kind.
        cost_models: text forms that were asked for, by kind.

    Raises:
        CompileError: MCM-D070 for kinds that the box does not have, MCM-U002 for one that has a
            profile and a cost model.
    """
    place = device_costs.option_place(OPTION)
    faults = device_costs.unknown_kinds(target.box, times, place)
    faults += [
        Diagnostic(
            "MCM-U002",
            f"{quote(kind)} has a profile, and the cost model {quote(cost_models[kind])}",
            at=place(kind),
            hint=f"leave {OPTION} or --cost-model out for this kind; a table of the latter may "
            "hold the times of the former",
        )
        for kind in times
        if kind in cost_models
    ]
    CompileError.raise_any(faults)


def with_profiles(target: BoxTarget, times: Mapping[str, OpSeconds], graph: ir.Graph) -> BoxTarget:
    """The box with tables of measured times for kinds of its devices.

    Args:
        target: the box.
        times: seconds by kind and by name of op; names that the graph does not have are left out.
        graph: what is placed.

    Raises:
        CompileError: MCM-D078 where the graph has none of the names, MCM-C003 for a box that takes
            no cost models, and MCM-C005 for times that are none.
    """
    names = {node.name or "" for node in graph} - {""}
    for kind, seconds in times.items():
        rows = {name: took for name, took in seconds.items() if name in names}
        if not rows:
            raise foreign_profile(kind, seconds)
        file = f"times.{kind}.csv"
        target = device_costs.with_device_costs(
            target,
            {kind: f"table{{file={print_value(file)}}}"},
            held_files({file: table_of(rows)}),
            device_costs.option_place(OPTION),
        )
    return target


def table_of(seconds: OpSeconds) -> bytes:
    """The file of the cost model `table` that has these times by name of op, sorted by name."""
    lines = ["node,seconds"]
    for name, took in sorted(seconds.items()):
        quoted = '"' + name.replace('"', '""') + '"'
        lines.append(f"{quoted if _TO_QUOTE.search(name) else name},{float(took)!r}")
    # Names that are no Unicode text are told where the table is read.
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")


def foreign_profile(kind: str, seconds: OpSeconds) -> CompileError:
    """MCM-D078: a profile has no op that devices of the kind run."""
    some = next(iter(seconds), "")
    return CompileError.of(
        "MCM-D078",
        f"none of {len(seconds):,} measured ops, such as {quote(some)}, is one that "
        f"devices of kind {quote(kind)} run",
        at=device_costs.option_place(OPTION)(kind),
    )
