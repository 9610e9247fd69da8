"""Language models that take the keys and values of earlier positions: prefill and decode."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx_ir as ir

from mcm_compiler.drafting.solution import Found
from mcm_compiler.drafting.symbols import OpenModel, contradiction, inferred_shapes
from mcm_compiler.drafting.trials import run_fault
from mcm_compiler.graph.dimensions import free_inputs
from mcm_compiler.graph.usual_sizes import BATCH, TOKENS, usual_size

TOTALS = (TOKENS, 64, 32, 16, 8, 4)
"""Positions of both profiles together, the first with which the model runs."""

_PAST = re.compile(r"past|cache|(^|[._])kv", re.IGNORECASE)
_WORDS = re.compile(
    r"past_key_values|present_key_values|past|present|updated|new|(?<![a-z])(in|out)(?![a-z])",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Profile:
    """A way in which a model is used.

    Attributes:
        name: of it.
        sizes: of the symbols that differ between profiles, by key.
    """

    name: str
    sizes: Mapping[str, Found]


def state_pairs(model: ir.Model) -> tuple[tuple[str, str], ...]:
    """Inputs that hold the past, each with the output that holds it for the next run."""
    presents: dict[str, list[ir.Value]] = {}
    for value in model.graph.outputs:
        presents.setdefault(_plain(value.name or ""), []).append(value)
    pairs: list[tuple[str, str]] = []
    for value in free_inputs(model):
        name = value.name or ""
        found = presents.get(_plain(name), [])
        if _PAST.search(name) and len(found) == 1 and _alike(value, found[0]):
            pairs.append((name, found[0].name or ""))
    return tuple(pairs) if len({present for _, present in pairs}) == len(pairs) else ()


def fitting(
    opened: OpenModel, sizes: Mapping[str, Found], pairs: tuple[tuple[str, str], ...]
) -> tuple[tuple[str, str], ...]:
    """The pairs of which the output is the input, or the input made longer along one axis.

    Args:
        opened: the model.
        sizes: of all symbols.
        pairs: by name.
    """
    if not pairs:
        return ()
    numbers = {key: found.size for key, found in sizes.items()}
    shapes = inferred_shapes(opened, numbers)
    kept: list[tuple[str, str]] = []
    for past, present in pairs:
        declared = opened.shapes.get(past)
        now = shapes.get(present)
        if declared is None or now is None or len(declared) != len(now):
            continue
        before = [numbers[size] if isinstance(size, str) else size for size in declared]
        changed = [
            new if isinstance(new, int) else -1
            for old, new in zip(before, now, strict=True)
            if old != new
        ]
        if not changed or (len(changed) == 1 and changed[0] > 0):
            kept.append((past, present))
    return tuple(kept)


def profiles(
    path: Path,
    opened: OpenModel,
    sizes: Mapping[str, Found],
    pairs: tuple[tuple[str, str], ...],
) -> tuple[Profile, ...]:
    """Prefill and decode of a model whose numbers of past and of new positions are both open.

    Args:
        path: the file.
        opened: of it.
        sizes: of all symbols; those that are no guess stay as they are.
        pairs: of the model; without one there are no profiles.
    """
    pasts = {past for past, _ in pairs}
    free = [key for key in opened.symbols if sizes[key].guessed or sizes[key].tried]
    free = [key for key in free if not _is_batch(opened, key)]
    inside = [key for key in free if any(name in pasts for name, _ in opened.symbols[key].places)]
    masks = [
        key
        for key in free
        if key not in inside and all("mask" in name for name, _ in opened.symbols[key].places)
    ]
    new = [key for key in free if key not in inside and key not in masks]
    if len(inside) != 1 or len(new) != 1:
        return ()
    found: tuple[Profile, ...] = ()
    for candidate in _candidates(inside[0], new[0], masks):
        found = found or candidate
        if all(_runs(path, opened, sizes, profile) for profile in candidate):
            return candidate
    return found


def _candidates(past: str, new: str, masks: list[str]) -> Iterator[tuple[Profile, ...]]:
    for total in TOTALS:
        both = {key: Found(total, "past and new positions", True) for key in masks}
        yield (
            Profile("prefill", {new: _guess(total), past: Found(0, "no past", True), **both}),
            Profile("decode", {new: _guess(1), past: _guess(total - 1), **both}),
        )


def _guess(size: int) -> Found:
    return Found(size, "a guess", guessed=True)


def _runs(path: Path, opened: OpenModel, sizes: Mapping[str, Found], profile: Profile) -> bool:
    numbers = {key: found.size for key, found in {**sizes, **profile.sizes}.items()}
    return contradiction(opened, numbers) is None and run_fault(path, opened, numbers) is None


def _is_batch(opened: OpenModel, key: str) -> bool:
    symbol = opened.symbols[key]
    return usual_size(symbol.name, symbol.axis, symbol.rank) == BATCH


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "", _WORDS.sub("", name).lower())


def _alike(past: ir.Value, present: ir.Value) -> bool:
    if past.dtype != present.dtype or not isinstance(past.type, ir.TensorType):
        return False
    return past.shape is None or present.shape is None or len(past.shape) == len(present.shape)
