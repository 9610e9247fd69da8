"""Sizes that one command line gives to many models: each takes those of dimensions that it has."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mcm_compiler.contracts import zoo
from mcm_compiler.contracts.zoo import build_zoo_model
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.graph.dimension_formulas import names_in
from mcm_compiler.graph.dimensions import check_known, free_inputs, sizes_of
from mcm_compiler.ir.reading.importer import parse_file
from mcm_compiler.options import CompileOptions

Symbols = Mapping[str, frozenset[str]]
"""Names of symbolic dimensions, and those that these are made of, by the name of the input."""


def options_of_each(models: Sequence[str], options: CompileOptions) -> tuple[CompileOptions, ...]:
    """The options of a batch for each of its models: without sizes that it has no use for.

    A model that cannot be read keeps all of them; its compile reports the fault.

    Args:
        models: paths, or `zoo:NAME`.
        options: as given for all of them.

    Raises:
        CompileError: MCM-U005 for a dimension or an input that none of the models has. It is left
            to the compiles where a model cannot be read, because it may be that one's.
    """
    if not options.dims and not options.shapes:
        return (options,) * len(models)
    symbols = [input_symbols(model) for model in models]
    known = [found for found in symbols if found is not None]
    if len(known) == len(symbols):
        dims, inputs = [_names(found) for found in known], [frozenset(found) for found in known]
        CompileError.raise_any(
            [
                *check_known(options.dims, dims, "dimension", "--dim"),
                *check_known(options.shapes, inputs, "input", "--shape"),
            ]
        )
    return tuple(options if found is None else _restricted(options, found) for found in symbols)


def _names(symbols: Symbols) -> frozenset[str]:
    return frozenset().union(*symbols.values())


def _restricted(options: CompileOptions, symbols: Symbols) -> CompileOptions:
    names = _names(symbols)
    return replace(
        options,
        dims={name: size for name, size in options.dims.items() if name in names},
        shapes={name: shape for name, shape in options.shapes.items() if name in symbols},
    )


def input_symbols(model: str) -> Symbols | None:
    """Names that give the open dimensions of each input a size; None if it cannot be read."""
    try:
        found = None if model.startswith(zoo.PREFIX) else Path(model).stat()
        return _symbols(model, None if found is None else (found.st_mtime_ns, found.st_size))
    except (OSError, CompileError):
        return None  # the compile reports why


@functools.lru_cache(maxsize=4)
def _symbols(model: str, _stamp: tuple[int, int] | None) -> Symbols:
    """The same, kept for the targets of a model, which need it one after the other."""
    if model.startswith(zoo.PREFIX):
        inputs = free_inputs(build_zoo_model(model.removeprefix(zoo.PREFIX)))
        sizes = {value.name or "": sizes_of(value) or () for value in inputs}
    else:
        graph = parse_file(Path(model)).graph
        weights = {tensor.name for tensor in graph.initializer}
        sizes = {
            value.name: [
                dim.dim_value if dim.HasField("dim_value") else dim.dim_param
                for dim in value.type.tensor_type.shape.dim
            ]
            for value in graph.input
            if value.name not in weights
        }
    return {
        name: frozenset(n for size in shape if isinstance(size, str) for n in names_in(size))
        for name, shape in sizes.items()
    }
