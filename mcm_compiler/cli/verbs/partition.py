"""`mcmc partition`: places the operators of a problem file on devices."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcm_compiler.cli import parameters
from mcm_compiler.cli.completed_names import names_of
from mcm_compiler.cli.failures import Verb
from mcm_compiler.cli.field_options import field_options, grouped_option, options_given
from mcm_compiler.cli.show import show_json, show_table
from mcm_compiler.contracts.requests import PlacementRequest
from mcm_compiler.text.option_fields import options_of
from mcm_compiler.text.units import bytes_text, printable

if TYPE_CHECKING:
    from mcm_compiler.contracts.placement import Placement, PlacementProblem

DEFAULT_COSTS = {"period": "device-placement", "latency": "device-latency"}

DEVICES = click.IntRange(0, 4096)


EXAMPLES = """\b
Examples:
  mcmc partition problem.json --rule relay
  mcmc partition problem.json --objective latency --max-cpus 2
  mcmc partition problem.json --partitioner dp --assignment-out devices.csv
"""


@click.command(cls=Verb, epilog=EXAMPLES)
@click.argument("problem", type=parameters.FILE)
@grouped_option(
    "Search",
    "--objective",
    type=click.Choice(["period", "latency"]),
    default="period",
    show_default=True,
    help="What is to be small: time per sample of a full pipeline, or time of one sample alone.",
)
@grouped_option(
    "Search",
    "--cost",
    default=None,
    shell_complete=names_of("PLACEMENT_COSTS"),
    help="Of the period device-placement (default; compute and communication of a device add up) "
    "or ring (they overlap), of the latency device-latency.",
)
@field_options(PlacementRequest)
@grouped_option(
    "Target",
    "--max-accelerators",
    type=DEVICES,
    default=None,
    help="Instead of the file's maxFPGAs.",
)
@grouped_option(
    "Target", "--max-cpus", type=DEVICES, default=None, help="Instead of the file's maxCPUs."
)
@click.option(
    "--assignment-out",
    type=parameters.FILE,
    default=None,
    help="Write the device of each node as CSV, or as JSON to a name that ends in .json.",
)
@parameters.force_option
@parameters.plugin_option
@parameters.format_option()
def command(
    problem: Path,
    objective: Any,
    cost: str | None,
    max_accelerators: int | None,
    max_cpus: int | None,
    assignment_out: Path | None,
    force: bool,
    plugin: tuple[Path, ...],
    output_format: str,
    **given: Any,
) -> None:
    """Place the operators of PROBLEM, a JSON file, on accelerators and CPUs.

    The file has the form of the inputs of Tarnawski et al. 2020. Prints the period or the latency,
    the device of each operator, and a proven lower bound.
    """
    from mcm_compiler.cli.output_files import refuse_existing, write_assignment
    from mcm_compiler.contracts.placement import (
        PlacementRequest,
        objective_of,
        placement_by,
        placement_cost,
    )
    from mcm_compiler.diagnostics import CompileError
    from mcm_compiler.placements.placement_file import read_placement, with_devices

    parameters.load_plugins(plugin)
    if assignment_out is not None:
        refuse_existing(assignment_out, force)
    asked = with_devices(read_placement(problem), max_accelerators, max_cpus)
    request = PlacementRequest(**options_given(options_of(PlacementRequest), given))
    cost = cost or DEFAULT_COSTS[objective]
    placer = placement_cost(cost)
    if objective_of(placer) != objective:
        message = f"the cost '{cost}' is one of the {objective_of(placer)}, not of the {objective}"
        hint = f"give --objective {objective_of(placer)}, or no --cost"
        raise CompileError.of("MCM-F022", message, at=asked.source, hint=hint)
    found = placement_by(cost, placer, asked, request)
    if output_format == "json":
        show_json(_data(asked, found, objective, (cost, request.rule)))
    else:
        _show(asked, found, objective, (cost, request.rule))
    if assignment_out is not None:
        rows = dict(zip(asked.names, found.device_of.tolist(), strict=True))
        write_assignment(assignment_out, rows, "device")
        click.echo(f"wrote {printable(str(assignment_out))}", err=True)


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
