"""An option is a field: command line, project file, checks, report, completion and documents."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable
from dataclasses import dataclass, fields, make_dataclass
from pathlib import Path
from typing import Any, cast

import click
import msgspec
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from mcm_compiler.cli.compile_options import compile_options
from mcm_compiler.cli.main import cli
from mcm_compiler.cli.verb import FORMAT, fields_of, verb
from mcm_compiler.contracts.requests import (
    ExploreOptions,
    PlacementOptions,
    PlanOptions,
    TrainingRequest,
)
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.options import CompileOptions
from mcm_compiler.placed.place_options import PlaceOptions
from mcm_compiler.project.table_reader import option_keys
from mcm_compiler.report.records.report import options_record
from mcm_compiler.text.json_text import UnreadableError
from mcm_compiler.text.option_fields import asked, options_of, plain_options

ROOT = Path(__file__).parents[4]


@dataclass(frozen=True)
class More(CompileOptions):
    """The options of a compile, and one of each of three forms."""

    acme_rounds: int = asked("whole", "Search", "Rounds of the search.", 3, low=1, high=9)
    acme_style: str = asked(
        "choice", "Target", "Style of it.", "plain", choices=("plain", "round"), names=""
    )
    acme_limit_s: float | None = asked(
        "duration", "Verification", "Limit of it.", flag="--acme-limit", key="acme_limit", low=0
    )


@pytest.fixture(name="verb")
def _verb() -> click.Command:
    def run(options: More = compile_options(More), output_format: str = FORMAT) -> None:
        click.echo(f"{options.acme_rounds} {options.acme_style} {options.acme_limit_s}")

    return verb()(run)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ((), "3 plain None"),
        (("--acme-rounds", "9", "--acme-style", "round"), "9 round None"),
        (("--acme-limit", "500ms", "-O1"), "3 plain 0.5"),
    ],
)
def test_the_command_line_has_it(verb: click.Command, words: tuple[str, ...], shown: str) -> None:
    result = CliRunner().invoke(verb, list(words))
    assert (result.exit_code, result.stdout.strip()) == (0, shown)


@pytest.mark.parametrize(
    "words", [("--acme-rounds", "10"), ("--acme-style", "odd"), ("--acme-limit", "0s")]
)
def test_the_command_line_refuses_what_is_out_of_range(
    verb: click.Command, words: tuple[str, ...]
) -> None:
    assert CliRunner().invoke(verb, list(words)).exit_code == 2


def test_the_help_has_it_in_its_section(verb: click.Command) -> None:
    text = CliRunner().invoke(verb, ["--help"]).stdout
    sections = dict(re.findall(r"^(\w+):\n((?: .*\n|\n(?= ))+)", text, flags=re.MULTILINE))
    assert "--acme-rounds" in sections["Search"]
    assert "[default: 3; 1 to 9]" in " ".join(sections["Search"].split())
    assert "[plain|round]" in sections["Target"]
    assert "--acme-limit DURATION" in sections["Verification"]


def test_a_shell_completes_it(verb: click.Command) -> None:
    complete = ShellComplete(verb, {}, "mcmc", "_MCMC_COMPLETE").get_completions
    assert {"--acme-rounds", "--acme-style", "--acme-limit"} <= {
        item.value for item in complete([], "--acme")
    }
    assert [item.value for item in complete(["--acme-style"], "r")] == ["round"]


def test_a_project_file_has_it() -> None:
    keys = {key.name: key for key in option_keys(More)}
    assert keys["acme_rounds"].rule.read(9) == 9
    assert keys["acme_style"].rule.read("round") == "round"
    assert keys["acme_limit"].rule.read("500 ms") == pytest.approx(0.5)
    assert keys["acme_limit"].option == "acme_limit_s"
    for name, value in (("acme_rounds", 10), ("acme_style", "odd"), ("acme_limit", 3)):
        with pytest.raises(UnreadableError):
            keys[name].rule.read(value)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"acme_rounds": 10}, "acme_rounds is 10, more than 9"),
        ({"acme_rounds": 0}, "acme_rounds is 0, not at least 1"),
        ({"acme_rounds": "x"}, "acme_rounds is 'x', not a whole number"),
        ({"acme_limit_s": -1.0}, "acme_limit_s is -1.0, not a positive number"),
        ({"acme_style": "odd"}, "acme_style is 'odd', not plain or round"),
    ],
)
def test_its_range_is_checked(change: dict[str, Any], part: str) -> None:
    with pytest.raises(CompileError) as caught:
        More(**change)
    (found,) = caught.value.diagnostics
    assert found.code == "MCM-U004"
    assert part in found.message


def test_the_report_has_it_and_its_schema_its_range() -> None:
    facts = plain_options(More(acme_rounds=4, level=1))
    assert (facts["acme_rounds"], facts["acme_style"], facts["acme_limit_s"]) == (4, "plain", None)
    record = options_record("MoreFacts", More)
    assert msgspec.convert(facts, record) == facts
    for wrong in ({"acme_style": "odd"}, {"acme_limit_s": "x"}, {"acme_rounds": 0}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(facts | wrong, record)
    assert "acme_rounds: Rounds of the search." in record.__doc__


def test_the_documents_have_it() -> None:
    script = runpy.run_path(str(ROOT / "tools" / "render_commands.py"))
    page = script["PROJECT"].read_text(encoding="utf-8")
    assert script["with_keys"](page) == page
    assert "| `acme_limit` | a text such as" in script["with_keys"](page, More)


@pytest.mark.parametrize("record", [CompileOptions, PlaceOptions, ExploreOptions, PlanOptions])
def test_an_option_that_a_record_gets_is_one_of_its_verb(record: type) -> None:
    more: Any = make_dataclass(
        "More", [("acme_mode", str, asked("choice", "Search", "Mode.", "a", choices=("a", "b")))],
        bases=(record,), frozen=True,
    )  # fmt: skip

    def run(given: dict[str, Any] = fields_of(more), output_format: str = FORMAT) -> None:
        click.echo(more(**given).acme_mode)

    command = verb()(run)
    needed = ("--sweep", "chip.sram_mib=1") if record is ExploreOptions else ()
    invoke = CliRunner().invoke
    assert invoke(command, needed).stdout == "a\n"
    assert invoke(command, [*needed, "--acme-mode", "b"]).stdout == "b\n"
    assert invoke(command, [*needed, "--acme-mode", "c"]).exit_code == 2
    assert "--acme-mode [a|b]" in invoke(command, ["--help"]).stdout.partition("Search:")[2]
    complete = ShellComplete(command, {}, "mcmc", "_MCMC_COMPLETE").get_completions
    assert [item.value for item in complete(["--acme-mode"], "")] == ["a", "b"]
    with pytest.raises(CompileError, match="MCM-U004"):
        more(acme_mode="c")


@pytest.mark.parametrize(
    ("record", "without"),
    [
        (CompileOptions, "sources"),
        (PlaceOptions, "training"),
        (PlanOptions, ""),
        (PlacementOptions, ""),
        (TrainingRequest, "folder"),
        (ExploreOptions, ""),
    ],
)
def test_every_field_is_an_option_with_a_help(record: type, without: str) -> None:
    options = options_of(record)
    names = [field.name for field in fields(record)]
    assert [one.name for one in options] == [name for name in names if name != without]
    assert all(one.help.endswith(".") for one in options)


@pytest.mark.parametrize(
    ("verb", "record"),
    [
        ("parallelize", PlanOptions),
        ("partition", PlacementOptions),
        ("train", TrainingRequest),
        ("place", PlaceOptions),
        ("explore", ExploreOptions),
        ("build", CompileOptions),
        ("compile", CompileOptions),
    ],
)
def test_a_verb_has_the_options_of_its_record_and_three_examples(verb: str, record: type) -> None:
    text = CliRunner().invoke(cli, [verb, "--help"]).stdout
    sections = dict(re.findall(r"^(\w+):\n((?: .*\n|\n(?= ))+)", text, flags=re.MULTILINE))
    for one in options_of(record):
        assert f"{one.flag} " in sections[one.group or "Output"], one
    assert len(re.findall(rf"  mcmc {verb}\b", text)) == 3


@pytest.mark.parametrize(
    ("make", "part"),
    [
        (lambda: PlanOptions(data=0), "data is 0, not at least 1"),
        (lambda: PlanOptions(optimizer="lion"), "optimizer is 'lion', not sgd"),
        (lambda: PlacementOptions(evaluations=0), "evaluations is 0, not at least 1"),
        (lambda: PlacementOptions(rule=cast("Any", "odd")), "rule is 'odd', not"),
        (lambda: TrainingRequest(Path("out"), -1), "seed is -1, not at least 0"),
        (lambda: ExploreOptions(jobs=0), "jobs is 0, not at least 1"),
        (
            lambda: ExploreOptions(front=cast("Any", ("cost",))),
            "front is ('cost',), not a tuple of throughput",
        ),
    ],
)
def test_ranges_hold_for_callers_as_for_the_command_line(
    make: Callable[[], object], part: str
) -> None:
    with pytest.raises(CompileError) as caught:
        make()
    assert part in caught.value.diagnostics[0].message


def test_an_option_of_two_records_is_stated_once() -> None:
    by_name = {one.name: one for one in options_of(CompileOptions)}
    same = ("seed", "budget_s", "dims", "shapes", "trip_counts")
    shared = [one for one in options_of(PlaceOptions) if one.name in same]
    assert shared == [by_name[one.name] for one in shared]
    assert len(shared) == len(same)
