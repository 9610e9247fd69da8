"""Verbs as functions: the default of a parameter is the option or argument that gives its value.

Options are those of `mcm_compiler.text.option_fields`; what each needs of click, how values reach
the function, and what all verbs do before their work follow from them.

What a shell offers for a word that is being typed: names of components, and files.

Names come from entry points alone. No component is imported and no plug-in file is run, so that a
shell has its answer before the next key.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import click
from click import Context, Parameter
from click.shell_completion import CompletionItem

from mcm_compiler.cli import parameters
from mcm_compiler.cli.show import failed, show_diagnostics
from mcm_compiler.diagnostics.catalog import catalog
from mcm_compiler.diagnostics.refusals import take_notices
from mcm_compiler.text.option_fields import Option, asked, option_of, options_of

ZOO_PREFIX = "zoo:"

Completer = Callable[["Context", "Parameter", str], "list[CompletionItem[str]]"]


def completer_of(names: str) -> Completer:
    """The completer of an option.

    Args:
        names: as `mcm_compiler.text.option_fields.Option` has them; `FILES` for files alone.
    """
    kind, *further = names.split()

    def complete(_ctx: Context, _param: Parameter, typed: str) -> list[CompletionItem[str]]:
        if kind == "FILES":
            return _items((), typed, True)
        if kind == "CODES":
            return _items(catalog(), typed.upper())
        if kind == "PIPELINE":  # passes, for its last step
            before, comma, step = typed.rpartition(",")
            return _items((f"{before}{comma}{name}" for name in _names("PASSES", step)), typed)
        if kind == "MODELS":  # files, and models of the zoo as soon as `zoo:` has been begun
            begun = typed and ZOO_PREFIX.startswith(typed[: len(ZOO_PREFIX)])
            zoo = [f"{ZOO_PREFIX}{name}" for name in _names("ZOO", "")] if begun else []
            return _items(zoo, typed, not typed.startswith(ZOO_PREFIX))
        words = [word for word in further if word != "FILE"]
        return _items((*_names(kind, typed), *words), typed, "FILE" in further)

    return complete


def _names(kind: str, typed: str) -> list[str]:
    from mcm_compiler import registry

    found: registry.Registry[object] = getattr(registry, kind)
    return found.names_at_hand(typed)


def _items(names: Iterable[str], typed: str, files: bool = False) -> list[CompletionItem[str]]:
    items = [CompletionItem(name) for name in names if name.startswith(typed)]
    if files:
        items.append(CompletionItem(typed, type="file"))
    return items


FILE = click.Path(path_type=Path)

_NAMED = ("sizes", "shapes", "costs by kind")
_FORMS: dict[str, dict[str, Any]] = {
    "file": {"metavar": "FILE", "shell_complete": completer_of("FILES")},
    "level": {"type": parameters.parse_level},
    "duration": {"type": parameters.parse_duration, "metavar": "DURATION"},
    "rate": {"type": parameters.parse_rate},
    "limits": {"type": parameters.parse_limits},
    "percentage": {"type": parameters.parse_percentage, "metavar": "PERCENT"},
    "flag": {"is_flag": True},
    **{form: {"type": FILE} for form in ("path", "new file", "new model")},
}
_REPEATED: dict[str, Any] = {
    "places": click.IntRange(0),
    "pins": parameters.parse_pin,
    "pairs": None,
    "patterns": None,
    "sizes": parameters.parse_dimension,
    "shapes": parameters.parse_shape,
    "named pins": parameters.parse_named_pin,
    "costs by kind": parameters.parse_device_costs,
    "profiles": parameters.parse_profile,
    "settings": parameters.parse_setting,
    "paths": FILE,
}
"""Arguments of `click.Option` by the form of the values, and types of those that repeat."""


class GroupedOption(click.Option):
    """An option in a section of the help.

    Attributes:
        group: the section; empty for the last one.
        shown: the default that the help shows, of an option whose own default is None.
    """

    def __init__(self, flags: Sequence[str], group: str, shown: str | None, **facts: Any) -> None:
        super().__init__(flags, **facts)
        self.group, self.shown = group, shown

    def get_help_extra(self, ctx: click.Context) -> Any:
        extra: Any = super().get_help_extra(ctx)
        if isinstance(self.type, click.IntRange):
            low, high = self.type.min, self.type.max
            open_above = high is None or high >= sys.maxsize
            extra["range"] = f"at least {low}" if open_above else f"{low} to {high}"
        return extra if self.shown is None else {**extra, "default": self.shown}


class Verb(click.Command):
    """A command whose failures are diagnosed in the format that the user asked for."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Options in the sections that they name; all others are about the output."""
        params = [p for p in self.get_params(ctx) if isinstance(p, click.Option)]
        rest = "Output" if any(getattr(param, "group", "") for param in params) else "Options"
        for group in ("Input", "Target", "Search", "Verification", rest):
            of_group = [p for p in params if (getattr(p, "group", "") or rest) == group]
            rows = [row for p in of_group if (row := p.get_help_record(ctx)) is not None]
            if rows:
                with formatter.section(group):
                    formatter.write_dl(rows)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BaseException as error:
            ctx.exit(failed(error, ctx.params.get("output_format")))
        finally:
            show_diagnostics(take_notices())


class VerbWithParts(Verb, click.Group):
    """A verb that does something by itself, and more with a word behind it."""


@dataclass(frozen=True)
class Several:
    """A parameter that several options make.

    Attributes:
        options: that the verb gets.
        made: the value of the parameter, from the options that are given.
    """

    options: Sequence[Option]
    made: Callable[[dict[str, Any]], Any] = field(default=dict[str, Any])


def argument(metavar: str | None = None, names: str = "", **facts: Any) -> Any:
    """A parameter that is an argument.

    Args:
        metavar: in the help; by default its name.
        names: that a shell completes, as of an option.
        facts: further ones of `click.Argument`.
    """
    if names:
        facts["shell_complete"] = completer_of(names)
    return {"metavar": metavar, **facts}


def fields_of(record: type, *names: str) -> Any:
    """A parameter that gets the given options of a record by their fields.

    Args:
        record: of options.
        names: of the fields; by default all.
    """
    return Several([one for one in options_of(record) if not names or one.name in names])


def form_of_result(*further: str) -> Any:
    """The parameter `output_format`: text or JSON, and `further` formats of this verb."""
    return asked(
        "choice", "", "Output format.", "text", flag="--format",
        choices=("text", "json", *further),
    )  # fmt: skip


MODEL = argument(names="MODELS")
MODELS = argument("MODEL...", nargs=-1, required=True, names="MODELS")
FOLDER = argument(type=FILE)
PROFILE = asked(
    "text", "", "Name of the profile to use.", metavar="NAME", shown="the first compiled",
)  # fmt: skip

FORCE = asked("flag", "", "Overwrite existing output.")
FORMAT = form_of_result()
FULL = asked("flag", "", "Print the whole report: details, hardware changes, bars per chip.")
HTML = asked("flag", "", "Also write the report as a page, OUTPUT.html.")
JUNIT = asked("path", "", "Also write a JUnit XML file.")
PLUGIN = asked(
    "paths", "", "Python file that registers components. Repeatable.", (), metavar="FILE"
)
SCHEDULER = asked(
    "text", "", "Address of a Dask scheduler whose workers do the work, such as "
    "tcp://10.0.0.1:8786; they need the same files.",
)  # fmt: skip
TARGET = asked("text", "Target", "Target, listed by mcmc targets, or a TOML file.", "mcm36",
               shown="mcm36", names="TARGETS FILE")  # fmt: skip

_PLUGIN = option_of("plugin", PLUGIN)


def verb(
    examples: Sequence[str] = (),
    *,
    plugins: bool = True,
    late: bool = False,
    one_thread: bool = False,
    kind: type[click.Command] = Verb,
    **facts: Any,
) -> Callable[[Callable[..., int | None]], Any]:
    """Decorator that makes a function a command.

    Defaults of parameters are options as `asked` notes them, arguments, or `Several`; a parameter
    without one gets the option of its name. Plug-ins are loaded, and files that the verb would
    write are refused where there are any, before the function runs.

    Args:
        examples: command lines for the help, without the program.
        plugins: whether it loads plug-ins.
        late: whether the function loads them itself.
        one_thread: whether it may learn, which is reproducible on one thread.
        kind: of the command.
        facts: further ones of the command.
    """

    def decorate(function: Callable[..., int | None]) -> click.Command:
        takes = inspect.signature(function).parameters
        made = {n: _declared(n, p.default) for n, p in takes.items() if p.default is not p.empty}
        options = [
            one for each in made.values() if isinstance(each, Several) for one in each.options
        ]
        params: list[click.Parameter] = []
        for name, each in made.items():
            if isinstance(each, Several):
                params += map(click_option, each.options)
            else:
                params.append(click.Argument([name], **each))
        if plugins and _PLUGIN not in options:
            params.insert(-1, click_option(_PLUGIN))

        def run(**given: Any) -> int | None:
            if one_thread:
                from mcm_compiler.processes.one_thread import use_one_thread

                # Before NumPy is imported.
                use_one_thread()
            values = {name: given[name] for name in takes if name in given}
            for name, each in made.items():
                if isinstance(each, Several):
                    values[name] = each.made(options_given(each.options, given))
            if not late and (plugins := given.get("plugin", ())):
                from mcm_compiler.plugin_files import load_plugins

                load_plugins(plugins)
            refuse_taken(options, given)
            return function(**values)

        epilog = "\n".join(["\b", "Examples:", *(f"  mcmc {line}" for line in examples)])
        return kind(
            None, callback=run, params=params, help=inspect.cleandoc(function.__doc__ or ""),
            epilog=f"{epilog}\n" if examples else None, **facts,
        )  # fmt: skip

    return decorate


def _declared(name: str, default: Any) -> Several | dict[str, Any]:
    """The options of a parameter, or the facts of an argument."""
    if isinstance(default, Several | dict):
        return cast("Several | dict[str, Any]", default)
    option = option_of(name, default)
    return Several([option], lambda given: given.get(name, option.default))


def click_option(option: Option) -> click.Option:
    """The option of the command line for a field."""
    facts: dict[str, Any] = {"help": option.help, **_FORMS.get(option.form, {})}
    if option.form == "choices":
        facts["type"] = parameters.parse_choices(option.choices)
    elif option.form == "choice":
        facts["type"] = click.Choice(option.choices)
    elif option.form == "whole":
        facts |= {"type": click.IntRange(option.low, option.high), "metavar": "N"}
    if option.form in _REPEATED:
        facts |= {"multiple": True, "type": _REPEATED[option.form]}
    elif option.form != "flag" and not option.required:
        facts["default"] = None
    if option.metavar is not None:
        facts["metavar"] = option.metavar
    if option.names:
        facts["shell_complete"] = completer_of(option.names)
    flag = option.flag
    if option.form == "switch":
        flag = f"{flag}/--no-{flag.removeprefix('--')}"
    shown = option.shown
    if (
        shown is None
        and option.form in ("level", "choice", "whole", "switch")
        and option.default is not None
    ):
        shown = "on" if option.form == "switch" and option.default else str(option.default)
    flags = [*([option.short] if option.short else []), flag, option.name]
    return GroupedOption(
        flags, option.group, shown, required=option.required, hidden=option.hidden, **facts
    )


def options_given(options: Sequence[Option], given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of options that are given."""
    values = {one.name: value_of(one, given[one.name]) for one in options}
    return {name: value for name, value in values.items() if value is not None}


def value_of(option: Option, given: Any) -> Any:
    """The value of a field from that of its option; None where it was not given.

    Raises:
        click.BadParameter: for a name that is given twice, and for faulty pairs.
    """
    if option.form == "pairs":
        return parameters.parse_states(given)
    if not given and option.form in ("flag", *_REPEATED):
        return None
    if option.form == "places":
        return tuple(sorted(set(given)))
    return parameters.once_each(option.flag, given) if option.form in _NAMED else given


def refuse_beside(option: str, others: Mapping[str, object]) -> None:
    """Refuses options that another one would leave without effect.

    Args:
        option: that is given.
        others: values of those that it takes not; None for what is not given.

    Raises:
        click.UsageError: if one of them is.
    """
    given = next((name for name, value in others.items() if value is not None), None)
    if given is not None:
        raise click.UsageError(f"{option} takes no {given}")


def refuse_taken(options: Sequence[Option], given: Mapping[str, Any]) -> None:
    """Stops a verb before it would write over a file.

    Raises:
        CompileError: as `refuse_existing`.
        click.UsageError: if two options name one file.
    """
    files = {one.flag: (one, given[one.name]) for one in options if one.form.startswith("new ")}
    if not any(path is not None for _, path in files.values()):
        return
    from mcm_compiler.cli import output_files

    output_files.refuse_same_file({flag: path for flag, (_, path) in files.items()})
    for one, path in files.values():
        if path is not None:
            refuse = output_files.refuse_existing
            if one.form == "new model":
                refuse = output_files.refuse_existing_model
            refuse(path, given["force"])
