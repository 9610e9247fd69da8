"""The first stage of a compile and of a placement: a model by its name, with states and trips."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import onnx_ir as ir

from mcm_compiler.contracts import zoo
from mcm_compiler.contracts.zoo import build_zoo_model
from mcm_compiler.diagnostics import CompileError, Diagnostic, Severity, quote
from mcm_compiler.graph.source import SOURCE
from mcm_compiler.graph.states import STATES, States, find_states, mark_in_place, recorded_states
from mcm_compiler.graph.trip_counts import sequence_counts, state_trip_counts
from mcm_compiler.ir.reading.importer import import_model, import_onnx
from mcm_compiler.options import CompileOptions
from mcm_compiler.results.strictness import refused_states


def import_named(
    model: str, dims: Mapping[str, int], shapes: Mapping[str, tuple[int, ...]]
) -> tuple[ir.Model, list[Diagnostic]]:
    """The model of a path or of `zoo:NAME`, as a compile begins with it, and what was noticed.

    Raises:
        CompileError: as the importer, and MCM-U001 to MCM-U003 for a name of the zoo.
    """
    return import_any(model, CompileOptions(dims=dims, shapes=shapes))


def import_any(
    model: str | Path | ir.Model, options: CompileOptions
) -> tuple[ir.Model, list[Diagnostic]]:
    """The model of a path, of `zoo:NAME` or of the caller, with trip counts of its loops stated.

    Raises:
        CompileError: as `import_model`, and MCM-I056 for a count of no loop.
    """
    given, sizes = None, (options.dims, options.shapes)
    if options.input is not None:
        from mcm_compiler.execution.npz_inputs import GivenInputs, read_npz

        given = GivenInputs(options.input, read_npz(Path(options.input)))
    if isinstance(model, ir.Model):
        name = str(model.graph.name or "model")
        imported, found = import_model(model, name, *sizes, given, context=options.context)
    elif isinstance(model, str) and model.startswith(zoo.PREFIX):
        built = build_zoo_model(model.removeprefix(zoo.PREFIX))
        imported, found = import_model(built, model, *sizes, given, context=options.context)
    else:
        imported, found = import_onnx(Path(model), *sizes, given, context=options.context)
    return imported, [*found, *_state_trips(imported, options)]


def _state_trips(model: ir.Model, options: CompileOptions) -> list[Diagnostic]:
    """States trip counts of loops: those of the options, then those of a run with the given data.

    Raises:
        CompileError: MCM-I056 for a count of no loop, or one that the graph contradicts.
    """
    source, notes = SOURCE.get(model), list[Diagnostic]()
    graphs = (source.original.graph, model.graph)
    known = sequence_counts(source.original.graph)
    state_trip_counts(graphs, known | dict(options.trip_counts))
    if source.given:
        from mcm_compiler.ir.shapes.control_flow import counted_trips

        try:
            counted = counted_trips(source.original, source.given)
        except CompileError as error:
            notes += [replace(one, severity=Severity.WARNING) for one in error.diagnostics]
        else:
            state_trip_counts(graphs, counted | known | dict(options.trip_counts))
    return notes


def set_states(model: ir.Model, options: CompileOptions) -> list[Diagnostic]:
    """Sets `STATES` where the model has any; returns notes.

    Raises:
        CompileError: MCM-P050 and MCM-P051 for states of the user that cannot be; where
            `sequences` are asked for, MCM-P081 too; MCM-P059 without states, for limits as well.
    """
    named = options.state if options.state is not None else recorded_states(model)
    pairs, notes = find_states(model.graph, named)
    if options.sequences is not None:
        notes = list(refused_states(notes))
    if pairs:
        STATES.set(model, States(pairs, options.sequences or 1))
        mark_in_place(model.graph, pairs)
    asked = {"sequences": f"memory for {options.sequences} sequences is", "serve": "limits are"}
    for name, what in () if pairs else asked.items():
        if getattr(options, name) is not None:
            message = f"{what} asked for, and the model has no states"
            notes.append(Diagnostic("MCM-P059", message, f"option {name}"))
    if any(one.severity is Severity.ERROR for one in notes):
        raise CompileError(notes)
    return notes


def doing_name(model: str | Path | ir.Model) -> str:
    """The name under which a crash journal has a model."""
    name = model.graph.name or "" if isinstance(model, ir.Model) else model
    return f"model {quote(str(name))}"
