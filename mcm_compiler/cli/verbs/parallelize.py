"""`mcmc parallelize`: how a model uses the devices of a package or cluster."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcm_compiler.cli.show import show_diagnostics, show_json, show_table, wrote
from mcm_compiler.cli.verb import FORCE, FORMAT, MODEL, TARGET, fields_of, refuse_beside, verb
from mcm_compiler.contracts.requests import PlanOptions
from mcm_compiler.options import CompileOptions
from mcm_compiler.text.option_fields import asked
from mcm_compiler.text.units import bytes_text, count_text, percent_text, seconds_text

if TYPE_CHECKING:
    from mcm_compiler.contracts.planning import PlanAnswer, Planner, PlanRequest
    from mcm_compiler.variants.plan_changes import StepChange

DEFAULT_PLANNER = "auto-map"

LISTED = 40
"""Variables that are listed; `--format json` and `-o` have all."""


@verb(
    (
        "parallelize zoo:bert-tiny --target mcm4",
        "parallelize zoo:bert-tiny --training --data 2 --stages 2 -o plan.json",
        "parallelize model.onnx --plan plan.json --sharded sharded.onnx",
    ),
    one_thread=True,
)
def command(
    model: str = MODEL,
    target: str = TARGET,
    planner: str = asked(
        "text", "Search", "Planner with its options.", DEFAULT_PLANNER, shown=DEFAULT_PLANNER,
        metavar="NAME{...}", names="PLANNERS",
    ),
    plan_options: dict[str, Any] = fields_of(PlanOptions),
    why: tuple[str, ...] = asked(
        "patterns", "", "Explain what forces or forbids this division; print no plan. Repeatable.",
        (), metavar="TENSOR.DIM",
    ),
    plan_file: Path | None = asked(
        "path", "Search", "Use this plan instead of a search.", flag="--plan"
    ),
    output: Path | None = asked("new file", "", "Write the plan as JSON.", short="-o"),
    annotated: Path | None = asked(
        "new model", "", "Write the model with ONNX's sharding specs and pipeline stages."
    ),
    sharded: Path | None = asked("new model", "", "Write the model with one op per shard."),
    of_model: dict[str, Any] = fields_of(
        CompileOptions, "dims", "shapes", "cost_model", "fallback"
    ),
    sensitivities: bool = asked(
        "flag", "", "Also show the effect of twice and half of each resource of the cluster.",
    ),
    force: bool = FORCE,
    output_format: str = FORMAT,
) -> None:  # fmt: skip
    """Plan how MODEL, a file or zoo:NAME, uses the devices of a target.

    A plan combines data parallelism, operator parallelism and a pipeline. Apply a plan for a
    package of chips with `mcmc compile --plan`.
    """  # fmt: skip
    from mcm_compiler.api import import_named
    from mcm_compiler.cli.output_files import diagnosed_writes
    from mcm_compiler.components.cost_choice import with_cost_model
    from mcm_compiler.components.cost_files import user_files
    from mcm_compiler.components.op_support import host_ops
    from mcm_compiler.components.target_loading import load_cluster, load_plannable
    from mcm_compiler.contracts.planning import PlanAnswer, PlanRequest, planner_of
    from mcm_compiler.contracts.sharding.parallel_plan import check_plan, plan_text, read_plan
    from mcm_compiler.graph.constants import placeable_nodes
    from mcm_compiler.ir.rewriting.writer import write_model
    from mcm_compiler.processes.staging import write_whole
    from mcm_compiler.registry import PLANNERS

    files = {"--output": output, "--annotated": annotated, "--sharded": sharded}
    flags = {"data": "--data", "stages": "--stages", "shards": "--shard"}
    degrees = {flag: plan_options.get(name) for name, flag in flags.items()}
    changed = {"--sensitivities": sensitivities or None}
    if why:
        refuse_beside("--why", {**files, **degrees, **changed})
    elif plan_file is not None:
        further = {f"--{name}": plan_options.get(name) for name in ("operator", "training")}
        refuse_beside("--plan", {**degrees, **further, **changed})
    options = PlanOptions(**plan_options)
    made = planner_of(planner)
    package = load_cluster(target) if sensitivities else load_plannable(target)
    asked_of_model = CompileOptions(**of_model)
    if asked_of_model.cost_model is not None:
        package = with_cost_model(package, asked_of_model.cost_model, user_files(Path()))
    imported, notes = import_named(model, asked_of_model.dims, asked_of_model.shapes)
    notes += host_ops(package, placeable_nodes(imported.graph), asked_of_model)[1]
    name = planner.partition("{")[0].strip()
    with PLANNERS.at_work(name):
        made.prepare(imported)
    plan = None
    if plan_file is not None:
        plan = read_plan(plan_file)
        check_plan(plan, imported, str(plan_file))
    if why:
        for wanted in why:
            tensor, _, dim = wanted.rpartition(".")
            if not tensor or not dim.isdecimal():
                raise click.BadParameter(f"{wanted!r} is not TENSOR.DIM", param_hint="--why")
            with PLANNERS.at_work(name):
                reason = made.why(imported, tensor, int(dim), options.operator or 2, plan)
            click.echo(reason)
        return
    changes: tuple[StepChange, ...] | None = None
    if plan is not None:
        result = PlanAnswer(plan, "given", 0)
    else:
        request = PlanRequest(
            model=imported, name=model, target=package, options=options, seed=options.seed,
            progress=_tell,
        )  # fmt: skip
        result, changes = _searched(planner, made, request, sensitivities)
    if output is not None:
        write_whole(output, plan_text(result.plan).encode())
    with PLANNERS.at_work(name, made):
        for path, make in ((annotated, made.annotated), (sharded, made.sharded)):
            if path is not None:
                with diagnosed_writes(path):
                    write_model(make(imported, result.plan), path, inline_bytes=0)
    wrote(output, annotated, sharded)
    _show(result, output_format, changes)
    show_diagnostics([*notes, *result.diagnostics])


def _searched(
    text: str, planner: Planner, request: PlanRequest, sensitivities: bool
) -> tuple[PlanAnswer, tuple[StepChange, ...] | None]:
    """The planner's answer and, where they are asked for, its sensitivities."""
    from mcm_compiler.contracts.planning import planned_by

    answer = planned_by(text, planner, request)
    if not sensitivities:
        return answer, None
    from mcm_compiler.variants.plan_changes import plan_changes

    return plan_changes(text, planner, request, answer)


def _tell(line: str) -> None:
    """Progress: one line that changes on a terminal, a line each elsewhere."""
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K{line}", err=True, nl=False)
    else:
        click.echo(line, err=True)


def _show(result: PlanAnswer, output_format: str, changes: Sequence[StepChange] | None) -> None:
    plan = result.plan
    if output_format == "json":
        estimates = [vars(estimate) for estimate in result.estimates]
        stated = {} if changes is None else {"sensitivities": [vars(one) for one in changes]}
        show_json({**plan.to_dict(), "estimates": estimates, **stated})
        return
    from mcm_compiler.variants.plan_changes import change_rows

    degrees = plan.degrees
    click.echo(
        f"{plan.model} on {plan.target}: data {degrees.data} x operator {degrees.operator} x "
        f"pipeline {degrees.pipeline}"
        + (f", on the first {count_text(plan.servers, 'server')}" if plan.servers else "")
    )
    if plan.pipeline is not None:
        cuts = ", ".join(map(str, plan.pipeline.cuts)) or "none"
        devices = ", ".join(map(str, plan.pipeline.device_cuts)) or "none"
        click.echo(f"pipeline: cuts at {cuts}; devices at {devices}")
    for record in plan.search:
        seconds = record.decides == "PP" or (record.decides == "OPP" and plan.objective == "cost")
        found = seconds_text(record.objective) if seconds else f"{record.objective:g}"
        gap = "" if record.gap is None else f", {percent_text(record.gap)} from the best possible"
        click.echo(f"{record.decides}: {found} by {record.method}{gap}")
    if result.estimates:
        click.echo("")
        rows = [["data", "operator", "stages", "seconds", "memory", ""]]
        rows += [
            [
                str(e.data),
                str(e.operator),
                str(e.stages),
                "does not fit" if e.seconds is None else seconds_text(e.seconds),
                "-" if e.memory_bytes is None else bytes_text(int(e.memory_bytes)),
                "chosen" if e.chosen else "",
            ]
            for e in result.estimates
        ]
        show_table(rows)
    if changes:
        click.echo("")
        show_table(change_rows(changes))
    divided = {n: d for n, d in {**plan.inputs, **plan.variables}.items() if d >= 0}
    click.echo("")
    total = len(plan.inputs) + len(plan.variables)
    click.echo(f"{len(divided)} of {total} inputs and variables are divided")
    if divided:
        show_table([[name, f"dim {dim}"] for name, dim in list(divided.items())[:LISTED]])
    if len(divided) > LISTED:
        click.echo(f"and {len(divided) - LISTED} more; --format json has all")
