"""Shapes that a file claims for what its ops make: dropped before inference, compared after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set

import onnx_ir as ir

from mcm_compiler.diagnostics import Diagnostic, quote
from mcm_compiler.graph.constants import graphs_of
from mcm_compiler.graph.static_shapes import static_dims
from mcm_compiler.text.units import count_text

Claims = Mapping[ir.Value, ir.Shape]


def take_claims(model: ir.Model) -> dict[ir.Value, ir.Shape]:
    """Drops the shapes of all that ops make, in the main graph and in bodies, in place.

    Returns:
        Those of bodies, and the static ones of the main graph, where others may name dimensions
        that have a size by now.
    """
    claims: dict[ir.Value, ir.Shape] = {}
    for value in _made(model):
        if value.shape is None:
            continue
        if value.shape.is_static() or not _is_outer(model, value):
            claims[value] = value.shape
        value.shape = None
    return claims


def restore_claims(model: ir.Model, claims: Claims) -> set[ir.Value]:
    """Gives values the shapes that were claimed for them where inference leaves them open.

    Nothing else vouches for such a shape unless a run does (`contradicted_by_run`).

    Returns:
        Those of the main graph.
    """
    if not claims:
        return set()
    restored: set[ir.Value] = set()
    for value in _made(model):
        claim = claims.get(value)
        if claim is None or static_dims(value.shape) is not None or _differ(claim, value.shape):
            continue
        known = claim if value.shape is None else value.shape
        pairs = zip(known, claim, strict=True)
        value.shape = ir.Shape([a if isinstance(a, int) else b for a, b in pairs])
        if _is_outer(model, value):
            restored.add(value)
    return restored


def claims_note(model: ir.Model, claims: Claims, restored: Set[ir.Value]) -> list[Diagnostic]:
    """The note MCM-I044 about claims that do not hold, once the shapes of a model are known.

    Args:
        model: with its final shapes.
        claims: from `take_claims`.
        restored: values that inference left open; what a run says of them is noted there.
    """
    wrong = [
        (value, claims[value])
        for value in _made(model)
        if value in claims and value not in restored and _differ(claims[value], value.shape)
    ]
    if not wrong:
        return []
    value, claim = wrong[0]
    name = quote(value.name or "")
    return [
        Diagnostic(
            "MCM-I044",
            f"the model declares other shapes of {count_text(len(wrong), 'value')} than their ops "
            f"make; {name} is declared as {_text(claim)} and is {_text(value.shape or ())}",
            at=f"value {name}",
        )
    ]


def _made(model: ir.Model) -> Iterator[ir.Value]:
    for graph in graphs_of(model):
        for node in graph:
            yield from (value for value in node.outputs if value.name)


def _is_outer(model: ir.Model, value: ir.Value) -> bool:
    node = value.producer()
    return node is not None and node.graph is model.graph


def _differ(claim: ir.Shape, found: ir.Shape | None) -> bool:
    if found is None:
        return False
    return len(claim) != len(found) or any(
        isinstance(size, int) and isinstance(claimed, int) and size != claimed
        for claimed, size in zip(claim, found, strict=True)
    )


def _text(dims: Iterable[int | ir.SymbolicDim]) -> str:
    return f"[{', '.join(str(dim) if isinstance(dim, int) else '?' for dim in dims)}]"
