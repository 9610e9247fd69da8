"""What a shell offers for a word that is being typed: names of components, and files.

Names come from entry points alone. No component is imported and no plug-in file is run, so that a
shell has its answer before the next key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from click import Context, Parameter

ZOO_PREFIX = "zoo:"

Completer = Callable[["Context", "Parameter", str], "list[CompletionItem[str]]"]


def completer_of(names: str) -> Completer:
    """The completer of an option.

    Args:
        names: as `mcm_compiler.text.option_fields.Option` has them.
    """
    if names in _OTHERS:
        return _OTHERS[names]
    kind, *further = names.split()

    def complete(_ctx: Context, _param: Parameter, typed: str) -> list[CompletionItem[str]]:
        words = [word for word in further if word != "FILE"]
        return _items((*_names(kind, typed), *words), typed, "FILE" in further)

    return complete


def complete_pipeline(_ctx: Context, _param: Parameter, typed: str) -> list[CompletionItem[str]]:
    """Offers passes for the last step of a pipeline."""
    before, comma, step = typed.rpartition(",")
    return _items((f"{before}{comma}{name}" for name in _names("PASSES", step)), typed, False)


def complete_models(_ctx: Context, _param: Parameter, typed: str) -> list[CompletionItem[str]]:
    """Offers files, and models of the zoo as soon as `zoo:` has been begun."""
    begun = typed and ZOO_PREFIX.startswith(typed[: len(ZOO_PREFIX)])
    zoo = [f"{ZOO_PREFIX}{name}" for name in _names("ZOO", "")] if begun else []
    return _items(zoo, typed, not typed.startswith(ZOO_PREFIX))


def complete_files(_ctx: Context, _param: Parameter, typed: str) -> list[CompletionItem[str]]:
    """Offers files."""
    return _items((), typed, True)


def complete_codes(_ctx: Context, _param: Parameter, typed: str) -> list[CompletionItem[str]]:
    """Offers the codes of diagnostics."""
    from mcm_compiler.diagnostics.catalog import catalog

    return _items(catalog(), typed.upper(), False)


def _names(kind: str, typed: str) -> list[str]:
    from mcm_compiler import registry

    found: registry.Registry[object] = getattr(registry, kind)
    return found.names_at_hand(typed)


def _items(names: Iterable[str], typed: str, files: bool) -> list[CompletionItem[str]]:
    items = [CompletionItem(name) for name in names if name.startswith(typed)]
    if files:
        items.append(CompletionItem(typed, type="file"))
    return items


_OTHERS: dict[str, Completer] = {
    "PIPELINE": complete_pipeline,
    "MODELS": complete_models,
    "CODES": complete_codes,
}
