"""A training step out of a model with a loss: forward, backward, clipping and update in one graph.

All of it are standard ops. What changes from step to step enters as an input and leaves as an
output, so that a runtime that knows nothing of training can train.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.graph.constants import consumed_values
from mcm_compiler.graph.states import STATES, STATES_PROPERTY, StatePair, States
from mcm_compiler.ir.reading.function_calls import inline_functions
from mcm_compiler.ir.shapes.control_flow import fold_decided_branches
from mcm_compiler.ir.shapes.inference import infer_shapes, open_values
from mcm_compiler.pipeline.passes import AnyKey, Pass, PassContext
from mcm_compiler.text.option_fields import above, at_least, checked, one_of
from mcm_compiler.text.units import count_text
from mcm_passes.differentiation import optimisers, reverse_mode
from mcm_passes.differentiation.emission import Emitter
from mcm_passes.differentiation.opset_raising import raise_opset
from mcm_passes.differentiation.variables import (
    FLOATS,
    chosen_variables,
    filled_tensor,
    make_constant,
    make_inputs,
    write_initial_values,
)


def made_ready(model: ir.Model) -> int:
    """Brings a model to the form that rules are written for, in place.

    Functions and branches that are surely taken are inlined, shapes that are open are inferred, and
    the opset is raised.

    Returns:
        The opset version of ONNX's own domain.

    Raises:
        CompileError: MCM-D036 for an op that cannot be raised, and as `infer_shapes`.
    """
    inline_functions(model)
    inlined = 0
    while found := fold_decided_branches(model):  # a branch may hold others
        inlined += found
    if inlined or open_values(model):
        infer_shapes(model)
    return raise_opset(model)


def emit_gradients(
    graph: ir.Graph,
    loss: ir.Value,
    sources: Sequence[ir.Value],
    ops: Emitter,
    rules: reverse_mode.Rules | None = None,
) -> list[ir.Value | None]:
    """Emits the gradients of a loss by sources; see `gradients_of`.

    Args:
        graph: `made_ready`.
        loss: a value of the graph; of one with several elements the sum is differentiated.
        sources: inputs or weights of floating point.
        ops: of the graph.
        rules: by operator; None for those that are installed.
    """
    ops.enter(f"grad/{loss.name}")
    kind = ops.operand(loss)
    seed = ops.constant(np.ones(kind.shape, kind.dtype.numpy()))
    return reverse_mode.gradients_of(
        list(graph), {loss: seed}, sources, ops, rules or reverse_mode.installed_gradients()
    )


OPTIMISERS = ("sgd", "adam")


@dataclass(frozen=True)
@checked(optimizer=one_of(OPTIMISERS), learning_rate=above(0), clip=at_least(0))
class TrainingStepOptions:
    """Options of a training step.

    Attributes:
        loss: the output to minimise; empty for the only output that is a number. A text such as
            `cross_entropy:logits` or `squares:y` adds a loss; see `add_loss`.
        optimizer: `sgd` or `adam`.
        learning_rate: of the optimiser.
        clip: most that the common norm of all gradients may be; 0 for no limit.
        variables: weights to train, by names with `*`, several divided by `|`, and with `!` those
            to leave as they are; see `chosen_variables`.

    Raises:
        ValueError: for options out of range.
    """

    loss: str = ""
    optimizer: str = "sgd"
    learning_rate: float = 0.01
    clip: float = 5.0
    variables: str = "*"


@dataclass(frozen=True)
class TrainingStep:
    """A training step.

    Attributes:
        model: the model, which was changed in place.
        loss: name of the loss.
        states: pasts and presents: variables, then what the optimiser keeps of each.
        initial_values: what each past is in the first step, made when it is read.
        forward_ops: ops before.
        backward_ops: ops of gradients.
        update_ops: ops of clipping and update.
    """

    model: ir.Model
    loss: str
    states: tuple[StatePair, ...]
    initial_values: Mapping[str, ir.TensorProtocol]
    forward_ops: int
    backward_ops: int
    update_ops: int


def training_step(
    model: ir.Model,
    options: TrainingStepOptions | None = None,
    rules: reverse_mode.Rules | None = None,
) -> TrainingStep:
    """Turns a model into a training step, in place.

    Weights become inputs `w` with outputs `w.next`; Adam's means become `w.m` and `w.v`, and its
    count of steps `adam.step`. All outputs of the model stay. The pairs are written to
    `metadata_props` under `STATES_PROPERTY`. Time is linear in the number of ops.

    Args:
        model: nodes have distinct names. Shapes are inferred where some are open.
        options: what to do.
        rules: gradients by operator; None for those that are installed.

    Raises:
        CompileError: MCM-D030 to MCM-D036.
    """
    options = options or TrainingStepOptions()
    graph = model.graph
    version = made_ready(model)
    loss = _loss(graph, optimisers.add_loss(graph, options.loss, version))
    needed = reverse_mode.needed_for(list(graph), [loss])
    wanted = _chosen_before(model, needed, loss, options.variables)
    initial = make_inputs(graph, wanted)
    forward = len(graph)
    ops = Emitter(graph, version)
    found = emit_gradients(graph, loss, list(initial), ops, rules)
    trained: list[optimisers.Trained] = []
    for variable, gradient in zip(initial, found, strict=True):
        if gradient is None:
            make_constant(graph, variable, initial[variable])
        else:
            trained.append(optimisers.Trained(variable, gradient))
    if not trained:
        raise _nothing_to_train(loss, options.variables)
    backward = ops.emitted
    updates = _updates(trained, options, ops, graph)
    names = optimisers.named_presents(updates, ops)
    for value, name in names.items():
        value.name = name
    added = ops.finish()
    graph.outputs.extend(names)
    states = tuple(StatePair(u.past.name or "", u.present.name or "") for u in updates)
    model.metadata_props[STATES_PROPERTY] = json.dumps([[p.past, p.present] for p in states])
    return TrainingStep(
        model,
        loss.name or "",
        states,
        {u.past.name or "": _initial(u, initial) for u in updates},
        forward,
        backward,
        len(added) - backward,
    )


def _loss(graph: ir.Graph, name: str) -> ir.Value:
    """The output to minimise.

    Raises:
        CompileError: MCM-D032 if there is none, or several to choose from.
    """
    outputs = {value.name or "": value for value in graph.outputs}
    numbers = [name for name, value in outputs.items() if _why_no_loss(value) is None]
    if name:
        found = outputs.get(name)
        why = "the model has no such output" if found is None else _why_no_loss(found)
    elif len(numbers) == 1:
        return outputs[numbers[0]]
    else:
        found, why = None, f"{len(numbers)} outputs of the model are numbers"
    if found is not None and why is None:
        return found
    shown = f"{quote(name)} is no loss" if name else "the loss is not clear"
    raise CompileError.of(
        "MCM-D032",
        f"{shown}: {why}",
        at="option loss",
        hint="name an output with one element of floating point "
        f"({', '.join(map(quote, numbers)) or 'the model has none'}), or have one added with "
        f'loss="KIND:OUTPUT" ({", ".join(optimisers.LOSSES)})',
    )


def _why_no_loss(value: ir.Value) -> str | None:
    """Why a value cannot be minimised."""
    if value.dtype not in FLOATS:
        return f"it is {value.type}, and a loss is of floating point"
    if value.shape is None or not value.shape.is_static():
        return f"its shape is {value.shape}, and a loss has one element"
    if any(dim != 1 for dim in value.shape.numpy()):
        return f"its shape is {list(value.shape.numpy())}, and a loss has one element"
    return None


def _chosen_before(
    model: ir.Model, needed: list[ir.Node], loss: ir.Value, pattern: str
) -> list[ir.Value]:
    """The variables that the loss depends on.

    Raises:
        CompileError: MCM-D033 if there are none.
    """
    read = {value for node in needed for value in consumed_values(node)}
    chosen = [value for value in chosen_variables(model, pattern) if value in read]
    if loss not in reverse_mode.reached_from(needed, chosen):
        raise _nothing_to_train(loss, pattern)
    return chosen


def _nothing_to_train(loss: ir.Value, pattern: str) -> CompileError:
    return CompileError.of(
        "MCM-D033",
        f"no weight to train: {quote(loss.name or '')} depends on none that {quote(pattern)} names",
        at="option variables",
    )


def _updates(
    trained: list[optimisers.Trained], options: TrainingStepOptions, ops: Emitter, graph: ir.Graph
) -> list[optimisers.Update]:
    if options.clip > 0:
        trained = optimisers.clipped(trained, options.clip, ops)
    if options.optimizer == "sgd":
        return optimisers.sgd(trained, options.learning_rate, ops)
    return optimisers.adam(trained, optimisers.AdamSettings(options.learning_rate), ops, graph)


def _initial(
    update: optimisers.Update, values: Mapping[ir.Value, ir.TensorProtocol]
) -> ir.TensorProtocol:
    """Past of the first step."""
    past = update.past
    if not update.zero:
        return values[past]
    assert past.shape is not None
    assert past.dtype is not None
    return filled_tensor(past.name or "", tuple(past.shape.numpy()), past.dtype, 0)


@dataclass(frozen=True)
class Differentiate(Pass, TrainingStepOptions):
    """Adds the backward pass, clipping and the update of weights to a model with a loss.

    Attributes:
        initial: file to write the values of the first step to, `.npz` by input; empty for none.

    Raises:
        ValueError: for options out of range.
    """

    name: ClassVar[str] = "differentiate"
    summary: ClassVar[str] = "make a training step: gradients, clipping and SGD or Adam"
    looks_at_target: ClassVar[bool] = False
    provides: ClassVar[tuple[AnyKey, ...]] = (STATES,)

    initial: str = ""

    def run(self, model: ir.Model, context: PassContext) -> bool:
        """See the class, and `training_step`.

        Raises:
            CompileError: MCM-D030 to MCM-D036.
        """
        step = training_step(model, self)
        STATES.set(model, States(step.states))
        if self.initial:
            write_initial_values(step.initial_values, Path(self.initial))
        ops = (step.forward_ops, step.backward_ops, step.update_ops)
        forward, backward, update = (count_text(count, "op") for count in ops)
        context.report(
            Diagnostic(
                "MCM-D038",
                f"{count_text(len(step.states), 'state')} are trained or kept by the optimiser; "
                f"{forward} forward, {backward} backward, {update} of clipping and update",
                at=f"loss '{step.loss}'",
            )
        )
        return True
