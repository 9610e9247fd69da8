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
        names: as `mcm_compiler.text.option_fields.Option` has them; `FILES` for files alone.
    """
    kind, *further = names.split()

    def complete(_ctx: Context, _param: Parameter, typed: str) -> list[CompletionItem[str]]:
        if kind == "FILES":
            return _items((), typed, True)
        if kind == "CODES":
            from mcm_compiler.diagnostics.catalog import catalog

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
