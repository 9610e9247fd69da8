"""Options of the command line from fields of a record of options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from mcm_compiler.cli import parameters
from mcm_compiler.cli.completed_names import complete_files, complete_pipeline, names_of

if TYPE_CHECKING:
    from mcm_compiler.text.option_fields import Option

_NAMED = ("sizes", "shapes", "costs by kind")
_MULTIPLE = ("places", "pins", "pairs", "patterns", "named pins", "profiles", *_NAMED)
_FORMS: dict[str, dict[str, Any]] = {
    "file": {"metavar": "FILE", "shell_complete": complete_files},
    "level": {"type": parameters.parse_level},
    "duration": {"type": parameters.parse_duration, "metavar": "DURATION"},
    "rate": {"type": parameters.parse_rate},
    "flag": {"is_flag": True},
    "places": {"type": click.IntRange(0)},
    "pins": {"type": parameters.parse_pin},
    "sizes": {"type": parameters.parse_dimension},
    "shapes": {"type": parameters.parse_shape},
    "named pins": {"type": parameters.parse_named_pin},
    "costs by kind": {"type": parameters.parse_device_costs},
    "profiles": {"type": parameters.parse_profile},
}
"""Arguments of `click.option` by the form of the values."""


class GroupedOption(click.Option):
    """An option in a section of the help.

    Attributes:
        group: the section.
        shown: the default that the help shows, of an option whose own default is None.
    """

    group = ""
    shown: str | None = None

    def get_help_extra(self, ctx: click.Context) -> Any:
        extra: Any = super().get_help_extra(ctx)
        return extra if self.shown is None else {**extra, "default": self.shown}


def field_option(name: str) -> Callable[[Any], Any]:
    """The option of a field of `CompileOptions`, for verbs that have few of them."""
    from mcm_compiler.options import CompileOptions
    from mcm_compiler.text.option_fields import options_of

    found = next(option for option in options_of(CompileOptions) if option.name == name)
    return click_option(found)


def field_options(record: type) -> Callable[[Any], Any]:
    """All options of a record, in the order of its fields."""
    from mcm_compiler.text.option_fields import options_of

    def decorate(command: Any) -> Any:
        for option in reversed(options_of(record)):
            command = click_option(option)(command)
        return command

    return decorate


def grouped_option(
    group: str, *flags: str, shown: str | None = None, **facts: Any
) -> Callable[[Any], Any]:
    """As `click.option`, with the attributes of a `GroupedOption`."""
    kind = type("OptionOfGroup", (GroupedOption,), {"group": group, "shown": shown})
    return click.option(*flags, cls=kind, **facts)


def click_option(option: Option) -> Callable[[Any], Any]:
    """The option of the command line for a field."""
    facts: dict[str, Any] = {"help": option.help, **_FORMS.get(option.form, {})}
    if option.form == "choice":
        facts["type"] = click.Choice(option.choices)
    elif option.form == "whole":
        facts["type"] = click.IntRange(option.low, option.high)
    if option.form in _MULTIPLE:
        facts["multiple"] = True
    elif option.form != "flag":
        facts["default"] = None
    if option.metavar is not None:
        facts["metavar"] = option.metavar
    if option.names == "PIPELINE":
        facts["shell_complete"] = complete_pipeline
    elif option.names:
        facts["shell_complete"] = names_of(option.names, files=option.names == "LEVELS")
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
    return grouped_option(option.group, flag, option.name, shown=shown, **facts)


def options_given(options: Sequence[Option], given: dict[str, Any]) -> dict[str, Any]:
    """Takes the values of fields out of those of a verb; those that are given."""
    values = {one.name: value_of(one, given.pop(one.name)) for one in options}
    return {name: value for name, value in values.items() if value is not None}


def value_of(option: Option, given: Any) -> Any:
    """The value of a field from that of its option; None where it was not given.

    Raises:
        click.BadParameter: for a name that is given twice, and for faulty pairs.
    """
    if option.form == "pairs":
        return parameters.parse_states(given)
    if not given and option.form in ("flag", *_MULTIPLE):
        return None
    if option.form == "places":
        return tuple(sorted(set(given)))
    return parameters.once_each(option.flag, given) if option.form in _NAMED else given
