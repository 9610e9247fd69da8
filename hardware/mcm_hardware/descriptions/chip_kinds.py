"""Chips of other kinds than one array: what a family of packages needs to know to hold them.

A description says `chip.kind = "fabric"`, and the kind is found by this name among components
of the kind `chip-kind`. The family reads its own keys and connects the chips; the kind reads the
keys of the chip, and makes the target. Neither imports the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, cast

from mcm_compiler.contracts.target import Target
from mcm_compiler.registry import CHIP_KINDS
from mcm_compiler.text.toml_description import parse_description
from mcm_hardware.chip.chip_spec import ChipSpec
from mcm_hardware.descriptions.description_reader import DescriptionReader
from mcm_hardware.descriptions.target_schema import Key
from mcm_hardware.tensors.storage_widths import StorageWidths

ARRAY = "array"
"""The kind that all families know: an array and a vector unit around one memory."""

KIND_KEY = "chip.kind"


class ChipKind(Protocol):
    """A kind of chip that packages may hold: a class that is made without arguments."""

    @property
    def keys(self) -> Mapping[str, Key]:
        """Keys of its numbers by dotted path, instead of those of arrays."""
        ...

    def check(self, reader: DescriptionReader, values: Mapping[str, Any]) -> None:
        """Notes which numbers contradict each other; those at fault are missing in `values`."""
        ...

    def chip(self, values: Mapping[str, Any], storage: StorageWidths) -> ChipSpec:
        """The numbers that partitioning and transfers need of a chip.

        Args:
            values: numbers without fault, by the paths of `keys`.
            storage: widths of types on links.
        """
        ...

    def package(self, plain: Any, values: Mapping[str, Any]) -> Target:
        """The target whose chips are of this kind.

        Args:
            plain: a `ChipsPackage` of the family with `chip` for each of its chips; it has
                limits, machine and simulator.
            values: as in `chip`.
        """
        ...


def chip_kind(name: str, text: str) -> ChipKind | None:
    """The kind that a description asks for; None where its chips are arrays.

    Args:
        name: the file or target, for the place in diagnostics.
        text: the description.

    Raises:
        CompileError: MCM-T001 if the text is not TOML, MCM-U003 for a kind that is not installed,
            MCM-X007 for one that cannot be made.
    """
    kind = kind_name(name, text)
    if kind is None:
        return None
    make = CHIP_KINDS.get(kind)
    with CHIP_KINDS.at_work(kind):
        return make()


def kinds_at_work(name: str, text: str) -> AbstractContextManager[object]:
    """A block in which the kind of a description's chips is asked.

    Raises:
        CompileError: MCM-X007 for what its methods let through, and as `chip_kind`.
    """
    kind = kind_name(name, text)
    return nullcontext() if kind is None else CHIP_KINDS.at_work(kind, CHIP_KINDS.get(kind))


def kind_name(name: str, text: str) -> str | None:
    """The name of the kind that a description asks for; None where its chips are arrays."""
    table = parse_description(name, text).data.get("chip")
    kind = cast("dict[str, Any]", table).get("kind", ARRAY) if isinstance(table, dict) else ARRAY
    # What is no text at all the reader of keys tells.
    return None if kind == ARRAY or not isinstance(kind, str) else kind
