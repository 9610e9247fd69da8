"""What a project file says of one model: sizes, where each comes from, state and profiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import onnx_ir as ir

from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.drafting.caches import fitting, profiles, state_pairs
from mcm_compiler.drafting.data_beside import sizes_of_data
from mcm_compiler.drafting.solution import Found, solve
from mcm_compiler.drafting.symbols import OpenModel, open_model
from mcm_compiler.drafting.trials import arguments, tried
from mcm_compiler.graph.dimensions import free_inputs
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
        """What is compared: without where sizes come from."""
        return (
            tuple((name, found.size) for name, found in self.dims.items()),
            tuple((name, shape) for name, (shape, _) in self.shapes.items()),
        )


@dataclass(frozen=True)
class ModelDraft:
    """What is said of one model.

    Attributes:
        model: its path below the folder, with slashes.
        sizes: for all profiles.
        profiles: name and sizes of each; none for a model with one way of use.
        state: inputs with the past, and outputs with it for the next run.
        inputs: name of an `.npz` file beside the model that fits it.
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
