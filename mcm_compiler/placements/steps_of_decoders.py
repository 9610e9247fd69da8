"""Steps of a decoder: the tokens that one brings, and the limits on the time that it may take."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

import onnx_ir as ir

from mcm_compiler.contracts.chips import whole_states
from mcm_compiler.contracts.program import PROGRAM, SIMULATION
from mcm_compiler.diagnostics import Diagnostic
from mcm_compiler.graph.source import SOURCE
from mcm_compiler.graph.static_shapes import static_dims
from mcm_compiler.text.units import count_text, seconds_text

Shape = Sequence[int] | None

ROUNDING = 1e-9
"""Share by which times may exceed limits."""

_WHOLE = ("int32", "int64")


@dataclass(frozen=True)
class Step:
    """One inference of a decoder.

    Attributes:
        tokens: positions by which a state grows; 1 where none grows.
        batch: sequences that go through together: rows of the inputs of whole numbers with a column
            for each token, or 1.
        context: positions that the states hold behind it; `tokens` where no state grows, and none
            is as long as a mask.
    """

    tokens: int
    batch: int
    context: int

    @property
    def of_prompt(self) -> int:
        """Steps that read a prompt as long as the context."""
        return -(-self.context // self.tokens)

    def waits_s(self, step_s: float) -> dict[str, float]:
        """Times that limits of the option `serve` are on, where a step takes `step_s` seconds."""
        return {"tpot": step_s / self.tokens, "ttft": step_s * self.of_prompt}

    def limit_s(self, serve: Mapping[str, float] | None) -> float:
        """Seconds within which a step keeps the limits of the option `serve`."""
        limits = serve or {}
        return min(limits.get("tpot", inf) * self.tokens, limits.get("ttft", inf) / self.of_prompt)


def step_of(states: Iterable[tuple[Shape, Shape]], others: Iterable[tuple[str, Shape]]) -> Step:
    """The step of a model.

    Args:
        states: shapes of each past and its present.
        others: element type in lower case, and shape, of each input that is no state.
    """
    whole = [shape for kind, shape in others if kind in _WHOLE and shape and len(shape) == 2]
    lengths = [shape[1] for shape in whole]
    pairs = [(a, b) for a, b in states if a is not None and b is not None]
    grown = [(q - p, q) for a, b in pairs for p, q in zip(a, b, strict=True) if q > p]
    # A cache in one buffer does not grow; a mask is as long as all tokens, or longer.
    tokens, context = max(grown, default=(min(lengths, default=1) or 1, 0))
    rows = {shape[0] for shape in whole if shape[1] == tokens}
    batch = rows.pop() if len(rows) == 1 and 0 not in rows else 1
    return Step(tokens, batch, context or max(lengths, default=tokens))


def step_of_model(model: ir.Model) -> Step | None:
    """The step of a model that is compiled; None where the file has no states."""
    if not (states := whole_states(model)):
        return None
    graph = SOURCE.get(model).original.graph
    pasts = {value.name: value for value in graph.inputs}
    presents = {value.name: value for value in graph.outputs}
    # Weights that are trained and what optimisers keep are states that a pass brought in.
    known = [pair for pair in states if pair.past in pasts and pair.present in presents]
    if not known:
        return None
    pairs = [(pasts.pop(pair.past), presents[pair.present]) for pair in known]
    kinds = {ir.DataType.INT32: "int32", ir.DataType.INT64: "int64"}
    return step_of(
        ((static_dims(past.shape), static_dims(present.shape)) for past, present in pairs),
        ((kinds.get(v.dtype, ""), static_dims(v.shape)) for v in pasts.values() if v.dtype),
    )


def most_in_flight(limit_s: float, period_s: float) -> int | float:
    """Sequences whose steps end within a limit where one ends in each period; at least one."""
    return max(math.floor(limit_s / period_s * (1.0 + ROUNDING)), 1) if limit_s < inf else inf


def missed_limits(model: ir.Model, serve: Mapping[str, float]) -> Diagnostic | None:
    """MCM-P089 where the steps of a compiled decoder take longer than the option `serve` allows."""
    program, simulation, step = PROGRAM.find(model), SIMULATION.find(model), step_of_model(model)
    if program is None or simulation is None or step is None:
        return None
    sequences = max(program.sequences, 1)
    waits = step.waits_s(max(sequences * simulation.period_s, simulation.latency_s))
    missed = [
        f"{name} is {seconds_text(waits[name])}, not at most {seconds_text(limit)}"
        for name, limit in sorted(serve.items())
        if waits[name] > limit * (1.0 + ROUNDING)
    ]
    if not missed:
        return None
    flight = count_text(sequences, "sequence")
    return Diagnostic(
        "MCM-P089",
        f"with {flight} in flight, steps of {count_text(step.tokens, 'token')} and a context of "
        f"{count_text(step.context, 'token')} {' and '.join(missed)}",
        at="option serve",
    )
