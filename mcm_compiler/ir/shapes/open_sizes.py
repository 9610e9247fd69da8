"""Sizes that onnxruntime takes only where they stay open, and those that it takes for no data."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import onnx_ir as ir

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.graph.constants import graphs_of
from mcm_compiler.graph.dimension_formulas import formula_of
from mcm_compiler.graph.dimensions import free_inputs, sizes_of
from mcm_compiler.graph.estimated_dims import estimated_dim
from mcm_compiler.graph.states import customary_pairs, is_named_as_cache
from mcm_compiler.graph.static_shapes import static_dims
from mcm_compiler.ir.shapes.fixed_shapes import shaped_by_sizes_alone


def context_sizes(model: ir.Model, context: int, dims: Mapping[str, int]) -> dict[str, int]:
    """The sizes of open dimensions that make a step of a decoder work on some positions.

    The past is the context without the new tokens, one unless `dims` says otherwise, or all of it
    where past and present are one buffer. Further lengths, such as that of a mask, are the context.

    Args:
        model: with open dimensions.
        context: positions, those of the new tokens included.
        dims: sizes that are given.

    Returns:
        `dims` with further sizes.

    Raises:
        CompileError: MCM-U009 where no cache has an open length, or sizes contradict the context.
    """
    values = {v.name or "": v for v in free_inputs(model)}
    made = {v.name or "": v for v in model.graph.outputs}
    states = {pair.past: pair.present for pair in customary_pairs(values, made)}
    states = states or {name: "" for name in values if is_named_as_cache(name)}
    shapes = {name: sizes_of(value) or () for name, value in values.items()}
    given = {name: shape for name, shape in shapes.items() if name not in states}
    batch = {shape[0] for shape in given.values() if shape}
    tokens = tokens_dimension(model)
    found, step = dict(dims), dims.get(tokens, 1)
    if tokens:
        found[tokens] = step
    whole = False
    for past, present in states.items():
        behind = sizes_of(made[present]) or () if present else ()
        for axis, size in _open(shapes[past]):
            if size in (*batch, tokens) or formula_of(size) is not None:
                continue
            if not (axis < len(behind) and behind[axis] == size):
                _give(found, size, context - step, context)
            elif found.get(size, 0) < context:  # a buffer may be longer
                _give(found, size, context, context)
            whole = True
    if not whole:
        names = dict.fromkeys(s for shape in shapes.values() for _, s in _open(shape) if s)
        listed = ", ".join(map(quote, names)) or "none"
        raise CompileError.of(
            "MCM-U009",
            f"no input that is a cache has a length that is open; open dimensions are {listed}",
            at="option context",
        )
    for shape in given.values():
        for axis, size in _open(shape):
            if axis and size and size not in (*batch, *found) and formula_of(size) is None:
                _give(found, size, context, context)
    return found


def tokens_dimension(model: ir.Model) -> str:
    """The name of the number of new tokens, where it is open; else ""."""
    values = {v.name or "": v for v in free_inputs(model)}
    made = {v.name or "": v for v in model.graph.outputs}
    pasts = {pair.past for pair in customary_pairs(values, made)}
    shapes = [
        sizes_of(value) or ()
        for name, value in values.items()
        if name not in pasts and "mask" not in name
    ]
    return next((s[1] for s in shapes if len(s) > 1 and isinstance(s[1], str)), "")


def _open(shape: tuple[int | str, ...]) -> Iterator[tuple[int, str]]:
    return ((axis, size) for axis, size in enumerate(shape) if isinstance(size, str))


def _give(found: dict[str, int], name: str, size: int, context: int) -> None:
    if size < 0 or found.setdefault(name, size) != size:
        said = f"{quote(name)} is {found[name]}" if name in found else f"a step has {-size} more"
        raise CompileError.of(
            "MCM-U009",
            f"with a context of {context} positions {quote(name)} would be {size}, and {said}",
            at="option context",
            hint="leave out the other size, or give a longer context",
        )


Dims = tuple[int, ...]


@dataclass(frozen=True)
class _Caches:
    """Positions of what an op with a cache reads.

    Attributes:
        past: of keys; those of values come next.
        bias: of what is added to scores, None where the op has none.
        heads: attribute with the number of heads in the cache.
    """

    past: int
    bias: int | None
    heads: str


_OPS = {
    ("com.microsoft", "GroupQueryAttention"): _Caches(3, None, "kv_num_heads"),
    ("com.microsoft", "MultiHeadAttention"): _Caches(6, 5, "num_heads"),
    ("", "Attention"): _Caches(4, 3, "kv_num_heads"),
}


def check_caches(
    model: ir.Model, declared: Mapping[str, ir.Shape], bound: Mapping[str, int]
) -> list[Diagnostic]:
    """Compares the caches of a model with the tokens that are new.

    Args:
        model: with its shapes.
        declared: shapes of graph outputs in the file.
        bound: sizes of symbolic dimensions.

    Returns:
        MCM-P084, a warning, for a present that has another size than the file says.

    Raises:
        CompileError: MCM-P083 for sizes that no kernel runs with.
    """
    # From opset 24 on a mask may end before the last key.
    pads_masks = model.opset_imports.get("", 0) >= 24
    faults: list[Diagnostic] = []
    others: list[Diagnostic] = []
    for node in model.graph:
        caches = _OPS.get((node.domain, node.op_type))
        if node.op_type == "Concat" and (continued := node.inputs[0]) is not None:
            past = static_dims(continued.shape)
            if past is not None and continued.is_graph_input():
                others += _renamed(node.outputs[0], past, declared, bound)
        if caches is not None and node.op_type == "Attention" and pads_masks:
            caches = replace(caches, bias=None)
        if caches is None or (past := _dims(node, caches.past)) is None or len(past) != 4:
            continue
        if (why := _contradiction(node, caches, past)) is not None:
            at = f"node {quote(node.name or '')} ({node.op_type})"
            faults.append(Diagnostic("MCM-P083", why, at))
        for value in node.outputs[1:3]:
            others += _renamed(value, past, declared, bound)
    if faults:
        more = f" ({len(faults) - 1} more ops likewise)" if len(faults) > 1 else ""
        raise CompileError(replace(faults[0], message=faults[0].message + more))
    return others[:1]


def _contradiction(node: ir.Node, caches: _Caches, past: Dims) -> str | None:
    """Why no kernel runs with the sizes of an op, None where one does."""
    query, values = _dims(node, 0), _dims(node, caches.past + 1)
    present = static_dims(node.outputs[1].shape) if len(node.outputs) > 1 else None
    if query is None:
        return None
    if past[0] != query[0]:
        return f"the cache holds {past[0]} sequences, and the batch has {query[0]}"
    heads = node.attributes.get_int(caches.heads, 0)
    if heads and past[1] != heads:
        return f"the cache has {past[1]} heads, and the op {heads}"
    if values is not None and values[:3] != past[:3]:
        return f"the cache of keys is {list(past)}, that of values {list(values)}"
    if present is None or len(present) != 4:
        return None
    new, old, whole = query[-2] if len(query) == 4 else query[1], past[2], present[2]
    if whole != old and whole != old + new and node.op_type == "GroupQueryAttention":
        return (
            f"a cache of {old} tokens with {new} more has {old + new} (or is one buffer of at "
            f"least {whole}), and the total length is {whole}"
        )
    if new > whole:
        return f"{new} new tokens do not fit a cache of {whole}"
    bias = _dims(node, caches.bias) if caches.bias is not None else None
    if bias and bias[-1] not in (1, whole):
        return _other_columns(bias[-1], whole)
    return None


def mask_fault(model: ir.Model, node: ir.Node) -> Diagnostic | None:
    """MCM-P083 where an op cannot read the scores of a cache with a mask of another length."""
    if node.op_type not in ("Add", "Where"):
        return None
    lasts = {dims[-1] for at in range(len(node.inputs)) if (dims := _dims(node, at))} - {1}
    for concat in model.graph:
        continued = concat.inputs[0] if concat.op_type == "Concat" else None
        if continued is None or not continued.is_graph_input():
            continue
        past, made = static_dims(continued.shape), static_dims(concat.outputs[0].shape)
        if past is None or made is None or (*past[:2], *past[3:]) != (*made[:2], *made[3:]):
            continue
        if len(past) == 4 and made[2] in lasts and (others := lasts - {made[2]}):
            why = _other_columns(min(others), made[2])
            return Diagnostic("MCM-P083", why, f"node {quote(node.name or '')} ({node.op_type})")
    return None


def _other_columns(columns: int, whole: int) -> str:
    return f"the mask has {columns} columns, and past and new tokens are {whole}"


def _renamed(
    value: ir.Value, past: Dims, declared: Mapping[str, ir.Shape], bound: Mapping[str, int]
) -> list[Diagnostic]:
    """MCM-P084 where the sizes of a present are others than the names in the file say."""
    found, said = static_dims(value.shape), declared.get(value.name or "")
    if found is None or said is None or len(found) != len(said):
        return []
    sizes = [d if isinstance(d, int) else bound.get(d.value or "") for d in said]
    if all(a is None or a == b for a, b in zip(sizes, found, strict=True)):
        return []
    shown = [b if a is None else a for a, b in zip(sizes, found, strict=True)]
    buffers = "past and present are taken for one buffer"
    grown = f"the past is {list(past)}, and the sizes of the op are used"
    return [
        Diagnostic(
            "MCM-P084",
            f"with these sizes the file says {shown} of {quote(value.name or '')}, and the op "
            f"makes {list(found)}: {buffers if found == past else grown}",
            at=f"output {quote(value.name or '')}",
        )
    ]


def _dims(node: ir.Node, position: int) -> Dims | None:
    value = node.inputs[position] if position < len(node.inputs) else None
    return static_dims(value.shape) if value is not None else None


def leave_open(model: ir.Model, declared: Mapping[str, ir.Shape] | None) -> list[Diagnostic]:
    """Opens the dimensions of inputs that the file leaves open, in place; planned as given.

    A branch that data decide may make no sense for the sizes at hand, and onnxruntime refuses a
    model in which its inference follows them there. Shapes of what ops make are dropped, to be
    found again; those that only a run finds have to stay open, too.

    Args:
        model: with its sizes bound.
        declared: shapes of graph inputs in the file.

    Returns:
        The note MCM-I057.
    """
    opened: list[str] = []
    for value in model.graph.inputs:
        name, shape = value.name or "", value.shape
        if shape is None or name in model.graph.initializers:
            continue
        file_shape = [None] * len(shape) if declared is None else declared.get(name, shape)
        pairs = list(enumerate(zip(file_shape, shape, strict=True)))
        value.shape = ir.Shape(
            [
                estimated_dim(name, axis, size) if isinstance(size, int) and size != dim else size
                for axis, (dim, size) in pairs
            ]
        )
        if not value.shape.is_static():
            opened.append(quote(name))
    for graph in graphs_of(model):
        for value in (v for node in graph for v in node.outputs):
            value.shape = None
    return [
        Diagnostic(
            "MCM-I057",
            "onnxruntime takes the model only while sizes are open that are known: they are "
            "planned as found, and open in the emitted models",
            at=f"input {', '.join(opened)}",
        )
    ]


_FAILED_IN = re.compile(r"while running (?P<op>\S+) node\. Name:'(?P<name>[^']*)'")

_REFUSED_AT = re.compile(
    r"failed:\s*Node \((?P<name>[^)]*)\) Op \((?P<op>[^)]*)\) \[ShapeInferenceError\]"
)
"""Of an op of the main graph; one in a body is named within the message about its owner."""

_FAIL_FOR_SIZES = frozenset(
    {
        "Add", "And", "AveragePool", "BatchNormalization", "Concat", "Conv", "ConvInteger",
        "ConvTranspose", "Einsum", "Equal", "Expand", "Flatten", "Gemm", "GlobalAveragePool",
        "GlobalMaxPool", "Greater", "GreaterOrEqual", "GroupNormalization",
        "InstanceNormalization", "LayerNormalization", "Less", "LessOrEqual", "MatMul",
        "MatMulInteger", "Max", "MaxPool", "Mean", "Min", "Mul", "Or", "PRelu", "Pow", "Reshape",
        "STFT", "Split", "Squeeze", "Sub", "Sum", "Tile", "Transpose", "Unsqueeze", "Where", "Xor",
    }
)  # fmt: skip
"""Ops of ONNX that compute any data of sizes that fit together."""


def impossible_sizes(model: ir.Model, reason: str) -> Diagnostic | None:
    """MCM-I058 where onnxruntime refuses or stops at an op for its sizes, which no data change.

    Where these are the sizes of a cache and a mask, MCM-P083.

    Args:
        model: with the shapes that are known.
        reason: why a session refused it, as MCM-V001 says, or a run failed, as MCM-V002 says.
    """
    found = _REFUSED_AT.search(reason) or _FAILED_IN.search(reason)
    if found is None or found["op"] not in _FAIL_FOR_SIZES:
        return None
    node = next((n for n in model.graph if n.name == found["name"]), None)
    if node is None or node.op_type != found["op"] or not shaped_by_sizes_alone(model, node):
        return None
    if (fault := mask_fault(model, node)) is not None:
        return fault
    sizes = ", ".join(
        f"{quote(v.name or '')} {v.shape}" for v in node.inputs if v is not None and v.shape
    )
    return Diagnostic(
        "MCM-I058",
        f"onnxruntime cannot run the model with these sizes, whatever the data: {reason}",
        at=f"node {quote(node.name or '')} ({node.op_type}), which reads {sizes}",
    )
