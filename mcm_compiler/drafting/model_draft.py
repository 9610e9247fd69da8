"""Entry of a project file for one model: sizes, their origins, state and profiles."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx_ir as ir

from mcm_compiler.checking.comparison.user_data import data_set_folders, read_data_set
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.drafting.solution import Found, solve
from mcm_compiler.drafting.symbols import OpenModel, contradiction, inferred_shapes, open_model
from mcm_compiler.drafting.trials import arguments, run_fault, tried
from mcm_compiler.execution.npz_inputs import check_inputs, read_npz
from mcm_compiler.graph.dimensions import free_inputs
from mcm_compiler.graph.estimated_dims import BATCH, TOKENS, usual_size
from mcm_compiler.ir.reading.importer import import_onnx, read_open_model


@dataclass(frozen=True)
class Sizes:
    """Sizes of one profile.

    Attributes:
        dims: by the name of the dimension.
        shapes: whole shapes of inputs with dimensions that have no name, and where the sizes of
            those come from.
    """

    dims: Mapping[str, Found] = field(default_factory=dict[str, Found])
    shapes: Mapping[str, tuple[tuple[int, ...], Found]] = field(
        default_factory=dict[str, tuple[tuple[int, ...], Found]]
    )

    def numbers(self) -> tuple[object, ...]:
        """Numbers to compare, without where sizes come from."""
        return (
            tuple((name, found.size) for name, found in self.dims.items()),
            tuple((name, shape) for name, (shape, _) in self.shapes.items()),
        )


@dataclass(frozen=True)
class ModelDraft:
    """Draft of one model's entry.

    Attributes:
        model: its path below the folder, with slashes.
        sizes: for all profiles.
        profiles: name and sizes of each; none for a model with one way of use.
        state: inputs with the past, and outputs with it for the next run.
        inputs: name of an `.npz` file next to the model that fits it.
        unranked: inputs that declare no shape at all; somebody has to give them one.
        faults: why the model cannot be read; empty where it can.
    """

    model: str
    sizes: Sizes = Sizes()
    profiles: tuple[tuple[str, Sizes], ...] = ()
    state: tuple[tuple[str, str], ...] = ()
    inputs: str | None = None
    unranked: tuple[str, ...] = ()
    faults: tuple[Diagnostic, ...] = ()

    @property
    def guesses(self) -> int:
        """Sizes that nothing determines."""
        every = [self.sizes, *(sizes for _, sizes in self.profiles)]
        found = [f for s in every for f in (*s.dims.values(), *(f for _, f in s.shapes.values()))]
        return sum(f.guessed for f in found)


def draft_model(root: Path, model: str) -> ModelDraft:
    """Finds sizes for one model.

    Args:
        root: the folder of the project.
        model: path below it.
    """
    path = root / model
    try:
        opened = open_model(read_open_model(path))
        unranked = unranked_inputs(opened.model)
        if unranked:
            return ModelDraft(model, unranked=unranked)
        if not opened.symbols:
            # Whatever else a compile would refuse is told now rather than by the first build.
            import_onnx(path)
            return ModelDraft(model, state=fitting(opened, {}, state_pairs(opened.model)))
        return _sized(path, model, opened)
    except CompileError as error:
        return ModelDraft(model, faults=error.diagnostics)


def unranked_inputs(model: ir.Model) -> tuple[str, ...]:
    """Inputs whose number of dimensions the file does not say."""
    return tuple(
        value.name or ""
        for value in free_inputs(model)
        if isinstance(value.type, ir.TensorType) and value.shape is None
    )


def _sized(path: Path, model: str, opened: OpenModel) -> ModelDraft:
    known, npz = sizes_of_data(path, opened)
    found = tried(path, opened, solve(opened, known))
    pairs = state_pairs(opened.model)
    ways = profiles(path, opened, found, pairs)
    used = {**found, **(ways[-1].sizes if ways else {})}
    varying = {key for way in ways for key in way.sizes}
    return ModelDraft(
        model,
        _sizes(opened, found, found.keys() - varying),
        tuple((way.name, _sizes(opened, {**found, **way.sizes}, varying)) for way in ways),
        fitting(opened, used, pairs),
        npz if not ways else None,
    )


def _sizes(opened: OpenModel, found: Mapping[str, Found], wanted: set[str]) -> Sizes:
    numbers = {key: size.size for key, size in found.items()}
    dims, shapes = arguments(opened, numbers)
    by_name = {opened.symbols[key].name: found[key] for key in wanted}
    whole: dict[str, tuple[tuple[int, ...], Found]] = {}
    for name, shape in shapes.items():
        keys = [size for size in opened.shapes[name] or () if isinstance(size, str)]
        mine = [found[key] for key in keys if key in wanted]
        if mine:
            told = next((size for size in mine if size.guessed), mine[0])
            whole[name] = (shape, told)
    return Sizes({name: by_name[name] for name in dims if name in by_name}, whole)


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
    path: Path, opened: OpenModel, sizes: Mapping[str, Found], pairs: tuple[tuple[str, str], ...]
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


MAX_BYTES = 256 << 20
"""Larger data are not looked into."""


def sizes_of_data(path: Path, opened: OpenModel) -> tuple[dict[str, Found], str | None]:
    """Sizes that data next to a model have.

    Read are `NAME.npz` next to `NAME.onnx`, and the first `test_data_set_N` of a folder that holds
    no other model. Data that cannot be read, or that fit the model not at all, are passed over.

    Args:
        path: the model's file.
        opened: of it.

    Returns:
        Sizes by symbol, and the name of the `.npz` file if it was that.
    """
    npz = path.with_suffix(".npz")
    try:
        if npz.is_file() and npz.stat().st_size <= MAX_BYTES:
            arrays = read_npz(npz)
            check_inputs(opened.model, arrays, str(npz), {})
            found = _sizes_of_data(opened, arrays, npz.name)
            if found is not None and arrays:
                return found, npz.name
        others = sum(1 for file in path.parent.iterdir() if file.suffix == ".onnx") - 1
        folders = data_set_folders(path.absolute().parent)
        if folders and not others and _bytes_in(folders[0]) <= MAX_BYTES:
            data = read_data_set(folders[0], opened.model)
            return _sizes_of_data(opened, data.inputs, folders[0].name) or {}, None
    except (CompileError, OSError):
        return {}, None
    return {}, None


def _bytes_in(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("*.pb") if file.is_file())


def _sizes_of_data(
    opened: OpenModel, arrays: Mapping[str, Any], origin: str
) -> dict[str, Found] | None:
    """None where two arrays differ in a dimension of one name, or in one that has a size."""
    found: dict[str, Found] = {}
    for name, shape in opened.shapes.items():
        given = getattr(arrays.get(name), "shape", None)
        if shape is None or given is None:
            continue
        if len(given) != len(shape):
            return None
        for size, number in zip(shape, given, strict=True):
            known = size
            if isinstance(size, str):
                known = found.setdefault(size, Found(int(number), f"the data in {origin}")).size
            if known != number:
                return None
    return found
