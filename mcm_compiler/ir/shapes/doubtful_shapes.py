"""Shapes that inference or the file got wrong: what onnxruntime computes for the original decides.

A chip that declares another shape than arrives is refused by onnxruntime, and memory planned for
it is wrong. So static shapes that no rule of an op vouches for are compared with one run.

Shapes that a file claims for what its ops make: dropped before inference, compared after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

import onnx_ir as ir

from mcm_compiler.diagnostics import Diagnostic, quote
from mcm_compiler.graph.constants import consumed_values, graphs_of, subgraphs
from mcm_compiler.graph.static_shapes import static_dims
from mcm_compiler.ir.shapes.fixed_shapes import fixed_shapes
from mcm_compiler.ir.shapes.shapes_by_run import FileRuns, learn_shape
from mcm_compiler.text.units import count_text


def contradicted_by_run(
    model: ir.Model, runs: FileRuns, doubtful: Sequence[ir.Value]
) -> list[Diagnostic]:
    """Correct unverified shapes by one run in onnxruntime, in place.

    Where the shape cannot depend on data it is static afterwards; otherwise the dimensions that
    differ are open, planned with the larger size. Shapes of what is computed from a corrected
    value are dropped, to be found again. Where the model cannot be run within the limits
    (`shapes_by_run`) all stays as it is.

    Args:
        model: with inferred shapes, in topological order.
        runs: of the model.
        doubtful: values of the main graph that have a shape, in graph order.

    Returns:
        The note MCM-I050 if a shape was corrected.
    """
    if not doubtful:
        return []
    results = runs.observe(doubtful).results
    wrong: list[tuple[ir.Value, list[int | None], tuple[int, ...]]] = []
    for value in doubtful:
        seen = _shapes_of(results.get(value.name or ""))
        claimed = tuple(int(dim) for dim in value.shape.numpy()) if value.shape is not None else ()
        if other := [shape for shape in seen if shape != claimed]:
            wrong.append((value, list(claimed), other[0]))
    if not wrong:
        return []
    corrected = {value for value, _, _ in wrong}
    _reopen_after(model, corrected, known=set(doubtful))
    for value, _, _ in wrong:
        value.shape = None
    fixed = fixed_shapes(model)
    for value, claimed, computed in wrong:
        if not isinstance(value.type, ir.TensorType):
            continue  # elements of a sequence differ; a run tells about these alone
        if value in fixed or len(claimed) != len(computed):
            learn_shape(value, computed, value in fixed)
            continue
        pairs = list(zip(claimed, computed, strict=True))
        value.shape = ir.Shape([a if a == b else None for a, b in pairs])
        larger = [max(a or 0, b) for a, b in pairs]
        learn_shape(value, larger, fixed=False)
    value, claimed, computed = wrong[0]
    return [
        Diagnostic(
            "MCM-I050",
            f"onnxruntime computes other shapes of {count_text(len(wrong), 'value')} than the "
            f"model or onnx's inference says; {quote(value.name or '')} is {list(computed)} and "
            f"not {claimed}",
            at=f"value {quote(value.name or '')}, made by {_maker(value)}",
        )
    ]


def forget_mapped_bodies(model: ir.Model) -> None:
    """Drops the shapes that bodies of `SequenceMap` declare for themselves, in place.

    onnxruntime takes no notice of them while it does not know the shapes of a sequence's elements;
    it refuses the body once a chip's model has those.
    """
    for node in model.graph.all_nodes():
        if node.op_type == "SequenceMap" and node.domain in ("", "ai.onnx"):
            for body in subgraphs(node):
                for value in (*body.inputs, *(v for inner in body for v in inner.outputs)):
                    value.shape = None


def _shapes_of(result: Any) -> Iterable[tuple[int, ...]]:
    """The shapes of a runtime value: of an array, or of the elements of a list."""
    for item in result if isinstance(result, list) else [result]:
        shape = getattr(item, "shape", None)
        if shape is not None:
            yield tuple(shape)


def _maker(value: ir.Value) -> str:
    node = value.producer()
    return f"{quote(node.name or '')} ({node.op_type})" if node is not None else "nothing"


def _reopen_after(model: ir.Model, corrected: set[ir.Value], known: set[ir.Value]) -> None:
    """Drops the shapes of all that is computed from `corrected`, but for those in `known`."""
    touched = set(corrected)
    for node in model.graph:
        if any(value in touched for value in consumed_values(node)):
            touched.update(node.outputs)
            for value in node.outputs:
                if value not in known:
                    value.shape = None


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
