"""`mcmc partition`: places the operators of a problem file on devices."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcm_compiler.cli.show import show_json, show_table, wrote
from mcm_compiler.cli.verb import FOLDER, FORCE, FORMAT, fields_of, verb
from mcm_compiler.contracts.requests import PlacementOptions
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.text.option_fields import asked
from mcm_compiler.text.units import bytes_text

if TYPE_CHECKING:
    from mcm_compiler.contracts.placement import Placement, PlacementProblem

DEFAULT_COSTS = {"period": "device-placement", "latency": "device-latency"}


@verb(
    (
        "partition problem.json --rule relay",
        "partition problem.json --objective latency --max-cpus 2",
        "partition problem.json --partitioner dp --assignment-out devices.csv",
    )
)
def command(
    problem: Path = FOLDER,
    objective: str = asked(
        "choice", "Search", "Minimise: period (time per sample of a full pipeline) or latency (one "
        "sample alone).", "period", choices=("period", "latency"),
    ),
    cost: str | None = asked(
        "text", "Search", "Cost model. period: device-placement (compute + communication) or ring "
        "(max of both); latency: device-latency.", names="PLACEMENT_COSTS", metavar="NAME",
        shown="device-placement or device-latency",
    ),
    options: dict[str, Any] = fields_of(PlacementOptions),
    max_accelerators: int | None = asked(
        "whole", "Target", "Number of accelerators.", low=0, high=4096, shown="maxFPGAs of the file"
    ),
    max_cpus: int | None = asked(
        "whole", "Target", "Number of CPUs.", low=0, high=4096, shown="maxCPUs of the file"
    ),
    assignment_out: Path | None = asked(
        "new file", "", "Also write the device of each node: JSON for a name in .json, else CSV."
    ),
    force: bool = FORCE,
    output_format: str = FORMAT,
) -> None:  # fmt: skip
    """Place the operators of a problem file on devices.

    PROBLEM is a JSON file in the input format of Tarnawski et al. 2020; devices are accelerators
    and CPUs. Prints the period or latency, the device
    of each operator, and a proven lower bound.
    """
    from mcm_compiler.cli.output_files import write_assignment
    from mcm_compiler.contracts.placement import (
        PlacementRequest,
        objective_of,
        placement_by,
        placement_cost,
    )
    from mcm_compiler.placements.placement_file import read_placement, with_devices

    asked = with_devices(read_placement(problem), max_accelerators, max_cpus)
    request = PlacementRequest.of(asked, PlacementOptions(**options))
    cost = cost or DEFAULT_COSTS[objective]
    placer = placement_cost(cost)
    if objective_of(placer) != objective:
        message = f"the cost '{cost}' is one of the {objective_of(placer)}, not of the {objective}"
        hint = f"give --objective {objective_of(placer)}, or no --cost"
        raise CompileError.of("MCM-F022", message, at=asked.source, hint=hint)
    found = placement_by(cost, placer, request)
    if output_format == "json":
        show_json(_data(asked, found, objective, (cost, request.rule)))
    else:
        _show(asked, found, objective, (cost, request.rule))
    if assignment_out is not None:
        rows = dict(zip(asked.names, found.device_of.tolist(), strict=True))
        write_assignment(assignment_out, rows, "device")
        wrote(assignment_out)


def _data(
    problem: PlacementProblem, found: Placement, objective: str, how: tuple[str, str]
) -> dict[str, Any]:
    gap = found.gap
    return {
        "problem": problem.source,
        "cost": how[0],
        "rule": how[1],
        "objective": objective,
        objective: found.period,
        "lower_bound": found.lower_bound,
        "argument": found.argument,
        "proof": found.proof or None,
        "gap": gap if gap < float("inf") else None,
        "price": found.price,
        "method": found.method,
        "max_accelerators": problem.max_accelerators,
        "max_cpus": problem.max_cpus,
        "device_load": found.device_load.tolist(),
        "assignment": [
            {"id": node, "name": name, "device": device}
            for node, name, device in zip(
                problem.ids, problem.names, found.device_of.tolist(), strict=True
            )
        ],
    }


def _why(found: Placement) -> str:
    return f"{found.argument} (proof {found.proof})" if found.proof else found.argument


def _show(
    problem: PlacementProblem, found: Placement, objective: str, how: tuple[str, str]
) -> None:
    rows = [
        [objective, f"{found.period:.6g}", f"cost {how[0]}, rule {how[1]}, {found.method}"],
        ["lower bound", f"{found.lower_bound:.6g}", _why(found)],
        ["gap", f"{found.gap:.2%}", ""],
    ]
    if found.price is not None:
        rows.append(["price", f"{found.price:.2%}", "of the rule, over the rule none"])
    show_table(rows)
    click.echo()
    count = [0] * (problem.max_accelerators + problem.max_cpus)
    size = [0.0] * len(count)
    for v, device in enumerate(found.device_of.tolist()):
        count[device] += 1
        size[device] += float(problem.size_bytes[v])

    table = [["device", "", "load", "nodes", "memory"]]
    for device, load in enumerate(found.device_load.tolist()):
        kind = "accelerator" if device < problem.max_accelerators else "CPU"
        table.append(
            [str(device), kind, f"{load:.6g}", str(count[device]), bytes_text(int(size[device]))]
        )
    show_table(table)
