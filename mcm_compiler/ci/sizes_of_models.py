"""Sizes that one command line gives to many models: each takes those of dimensions that it has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mcm_compiler.contracts import zoo
from mcm_compiler.contracts.zoo import build_zoo_model
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.graph.dimension_formulas import names_in
from mcm_compiler.graph.dimensions import check_known, free_inputs, sizes_of
from mcm_compiler.ir.reading.importer import parse_file
from mcm_compiler.options import CompileOptions


@dataclass(frozen=True)
class InputNames:
    """Inputs and dimensions that sizes can be given to.

    Attributes:
        inputs: names of a model's inputs.
        dimensions: names of their symbolic dimensions, and those that these are made of.
    """

    inputs: frozenset[str]
    dimensions: frozenset[str]


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
    names = [_input_names(model) for model in models]
    known = [found for found in names if found is not None]
    if len(known) == len(names):
        faults = [
            *check_known(options.dims, [n.dimensions for n in known], "dimension", "--dim"),
            *check_known(options.shapes, [n.inputs for n in known], "input", "--shape"),
        ]
        if faults:
            raise CompileError(faults)
    return tuple(options if found is None else _restricted(options, found) for found in names)


def _restricted(options: CompileOptions, found: InputNames) -> CompileOptions:
    return replace(
        options,
        dims={name: size for name, size in options.dims.items() if name in found.dimensions},
        shapes={name: shape for name, shape in options.shapes.items() if name in found.inputs},
    )


def _input_names(model: str) -> InputNames | None:
    """None where the model cannot be read."""
    try:
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
    except CompileError:
        return None
    symbols = {size for shape in sizes.values() for size in shape if isinstance(size, str)}
    names = frozenset(name for symbol in symbols for name in names_in(symbol))
    return InputNames(frozenset(sizes), names)
