"""`mcmc check`: proves a compiled folder again, from its files alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcm_compiler.cli.parameters import MAX_SEED
from mcm_compiler.cli.show import beside, progress_line, report_failure, show_diagnostics, show_json
from mcm_compiler.cli.verb import FORMAT, JUNIT, argument, verb
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.text.option_fields import asked
from mcm_compiler.text.units import count_text, printable

if TYPE_CHECKING:
    from mcm_compiler.ci.checks import CheckOutcome

_VERDICTS = {"holds": ("ok  ", "green"), "skipped": ("skip", "yellow"), "fails": ("FAIL", "red")}


SUITE = "mcmc check"


@verb(
    (
        "check out",
        "check out --model model.onnx -i sample.npz --strict",
        "check compiled/ --jobs 4 --junit checks.xml",
    )
)
def command(
    folders: tuple[str, ...] = argument("FOLDER...", nargs=-1, required=True),
    seeds: int | None = asked(
        "whole", "Verification", "Number of random inputs whose outputs are compared.", low=0,
        shown="0 with own data; else 1 if every op is proven, 2 if not",
    ),
    seed: int = asked("whole", "Verification", "First random seed.", 0, low=0, high=MAX_SEED),
    inputs: tuple[Path, ...] = asked(
        "paths", "Input", "An .npz file with one array per model input. Repeatable.", (),
        flag="--input", short="-i",
    ),
    test_data: Path | None = asked(
        "path", "Input", "A test_data_set_N folder, or a model's folder with such folders; their "
        "outputs are compared too.",
    ),
    model: str | None = asked(
        "text", "Input", "Source model of FOLDER, a file or zoo:NAME, to prove the chips against.",
        names="MODELS", shown="the folder's own copy",
    ),
    strict: bool = asked(
        "flag", "Verification", "Exit with 3 if anything could not be checked or proven.",
    ),
    junit: Path | None = JUNIT,
    jobs: int = asked("whole", "", "Number of folders checked in parallel.", 1, low=1),
    output_format: str = FORMAT,
    *,
    plugin: tuple[Path, ...],
) -> int:  # fmt: skip
    """Check FOLDER: hashes, structure, ring rules, memory, and equal outputs in onnxruntime.

    Every op, attribute, weight and wire of the chips is proven against the folder's copy of the
    model, or with --model against your own. For a folder of mcmc place, the segments are proven,
    and every field of its files is re-derived from model, host and placement.

    Outputs are compared on random inputs, on your own, or on both; with --model also once under
    onnxruntime's default session options. Exits with 1 if a step fails, and with --strict with 3
    if none fails but anything could not be checked or proven.

    Several folders, or a folder with output folders at any depth, are checked one by one, with one
    line each. A failure does not stop the others.
    """
    from mcm_compiler.ci.checks import DEFAULT_SEEDS, check_one, exit_code, list_folders
    from mcm_compiler.cli.output_files import refuse_inside_output
    from mcm_compiler.processes.staging import refuse_irregular

    own_data = bool(inputs) or test_data is not None
    if seeds == 0 and not own_data:
        raise click.BadParameter("0 needs --input or --test-data", param_hint="'--seeds'")
    count = DEFAULT_SEEDS if seeds is None else seeds
    if seed + count - 1 > MAX_SEED:
        raise click.BadParameter(f"the last seed is larger than {MAX_SEED}", param_hint="'--seeds'")
    work = partial(check_one, strict=strict, model=model, seeds=seeds, seed=seed)
    listed = list_folders(folders)
    many = len(folders) > 1 or listed != folders
    if many and own_data:
        raise click.UsageError("--input and --test-data are for a single folder")
    if junit is not None:
        refuse_inside_output(junit)
        refuse_irregular(junit)
    if many:
        return _check_many(listed, work, junit, jobs, plugin, output_format)
    with progress_line() as progress:
        outcome = work(listed[0], inputs=inputs, test_data=test_data, progress=progress)
    if outcome.data is None:
        _report([outcome], junit)
        return report_failure(CompileError(outcome.diagnostics), output_format)
    if output_format == "json":
        show_json(outcome.data)
    else:
        _show(outcome, outcome.data)
    _report([outcome], junit)
    return exit_code([outcome])


def _show(outcome: CheckOutcome, data: dict[str, Any]) -> None:
    steps = data["steps"]
    width = max((len(step["name"]) for step in steps), default=0)
    for step in steps:
        word = "skipped" if step["skipped"] else "holds" if step["holds"] else "fails"
        verdict, colour = _VERDICTS[word]
        head = f"{click.style(verdict, fg=colour)}  {printable(step['name']):<{width}}  "
        for line in beside(head, width + len(verdict) + 4, printable(step["detail"])):
            click.echo(line)
    show_diagnostics(outcome.diagnostics)
    text = "holds" if data["holds"] else "does not hold"
    if data["holds"] and not data["complete"]:
        skipped = " and ".join(step["name"] for step in steps if step["skipped"])
        text = f"holds as far as it was checked: {skipped} was not"
    click.echo(f"{printable(outcome.folder)} {text}")


def _check_many(
    folders: Sequence[str],
    work: Callable[[str], CheckOutcome],
    junit: Path | None,
    processes: int,
    plugins: tuple[Path, ...],
    output_format: str,
) -> int:
    from mcm_compiler.ci.checks import exit_code, lost
    from mcm_compiler.ci.processes import work_on_all
    from mcm_compiler.cli.many_models import NAME_WIDTH, each_shown

    width = min(max(len(printable(folder)) for folder in folders), NAME_WIDTH)
    as_text = output_format != "json"
    with progress_line() as progress:
        results = work_on_all(folders, work, lost, processes, plugins, progress)
        outcomes = each_shown(
            results,
            lambda one: (one.folder, [_line(one, width)] if as_text else [], one.diagnostics),
        )
    if as_text:
        failed = sum(outcome.failed for outcome in outcomes)
        total = count_text(len(outcomes), "folder")
        click.echo(f"{total}: {len(outcomes) - failed} ok, {failed} failed")
    else:
        show_json([_data(outcome) for outcome in outcomes])
    _report(outcomes, junit)
    return exit_code(outcomes)


def _line(outcome: CheckOutcome, width: int) -> str:
    """`ok      compiled/a  7 steps hold`, or `FAILED  compiled/b  MCM-A010 in files`."""
    verdict = click.style("FAILED", fg="red") if outcome.failed else click.style("ok    ", "green")
    return f"{verdict}  {printable(outcome.folder):<{width}}  {outcome.line}"


def _data(outcome: CheckOutcome) -> dict[str, object]:
    """The JSON form: nothing that differs between two runs."""
    found: dict[str, object] = {"folder": outcome.folder, "ok": not outcome.failed}
    diagnostics = [d.to_dict() for d in outcome.diagnostics]
    return found | (outcome.data or {"holds": False, "steps": [], "diagnostics": diagnostics})


def _report(outcomes: Sequence[CheckOutcome], junit: Path | None) -> None:
    """Prints GitHub's annotations, and writes the JUnit file.

    Raises:
        CompileError: MCM-A002 or MCM-U050 if the file cannot be written.
    """
    from mcm_compiler.cli.guard import annotate
    from mcm_compiler.cli.output_files import write_with_parents

    annotate((outcome.folder, outcome.diagnostics) for outcome in outcomes)
    if junit is not None:
        from mcm_compiler.ci.junit import Case, junit_xml

        cases = [
            Case(o.folder, o.seconds, o.diagnostics, printable(o.line), o.failed) for o in outcomes
        ]
        write_with_parents(junit, junit_xml([(SUITE, "check", cases)]))
