"""Binding the symbolic dimensions of graph inputs to numbers."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterable, Mapping, Sequence

import onnx_ir as ir

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.graph.dimension_formulas import formula_of, names_in
from mcm_compiler.graph.estimated_dims import usual_shape, usual_size


def bind_dimensions(
    model: ir.Model, dims: Mapping[str, int], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, int]:
    """Sets the shapes of graph inputs in place.

    A dimension whose name is a formula of others, such as `2*batch`, has the size that follows from
    theirs. Names are claims of the file, which onnxruntime does not enforce: a whole shape that is
    given for an input counts also where another input has another size under the same name
    (`shared_names`).

    Args:
        model: the model; initializers among its inputs (IR version 3) are left alone.
        dims: sizes by the name of the symbolic dimension.
        shapes: full shapes by input name.

    Returns:
        The bindings of named dimensions that were applied, those that follow from `shapes` too,
        without names that stand for several sizes.

    Raises:
        CompileError: MCM-U005 for a dimension or input that the model does not have, MCM-I030 for
            dimensions left open, MCM-I031 for a shape or a size that contradicts the model.
    """
    inputs = free_inputs(model)
    faults: list[Diagnostic] = []
    by_name = {v.name or "": v for v in inputs}
    symbols = dict.fromkeys(symbol for v in inputs for symbol in _symbols(v))
    several = _sizes_by_name(model, dims, shapes)
    given_sizes = {symbol: min(sizes) for symbol, sizes in several.items() if len(sizes) == 1}
    bound = given_sizes | dict(dims)
    for name, shape in shapes.items():
        if name not in by_name:
            lack = f"the model has no input {quote(name)}; it has"
            faults.append(_unknown(lack, name, list(by_name), "--shape"))
        else:
            faults += _apply_shape(by_name[name], shape)
    faults += _follow((s for s in symbols if s in dims or s not in several), bound)
    used = {name for symbol in symbols for name in names_in(symbol) if name in bound}
    open_dims: dict[str, list[str]] = {}
    for value in inputs:
        for symbol in _bind_value(value, bound):
            formula = formula_of(symbol)
            # What no size follows for is told already.
            if formula is None or not formula.names <= bound.keys():
                open_dims.setdefault(symbol, []).append(value.name or "")
    known = sorted({*used, *open_dims, *(n for s in open_dims for n in names_in(s))} - {""})
    given = [name for name in dims if name not in used]
    faults += [
        _unknown(f"the model has no dimension {quote(name)}; it has", name, known, "--dim")
        for name in given
    ]
    faults += _left_open(open_dims, by_name, bound)
    CompileError.raise_any(faults)
    return {symbol: bound[symbol] for symbol in sorted(used) if len(several.get(symbol, ())) < 2}


def shared_names(
    model: ir.Model, dims: Mapping[str, int], shapes: Mapping[str, tuple[int, ...]]
) -> list[Diagnostic]:
    """Names of dimensions that inputs share, though the sizes given for them differ.

    Args:
        model: with open dimensions, before `bind_dimensions`.
        dims: as there.
        shapes: as there.

    Returns:
        The note MCM-I059 if there are any.
    """
    several = _sizes_by_name(model, dims, shapes)
    found = [(symbol, sizes) for symbol, sizes in several.items() if len(sizes) > 1]
    if not found:
        return []
    symbol, sizes = found[0]
    others = f", and {len(found) - 1} more for several" if len(found) > 1 else ""
    owners = dict.fromkeys(name for names in sizes.values() for name in names)
    return [
        Diagnostic(
            "MCM-I059",
            f"the dimension {quote(symbol)} stands for the sizes {', '.join(map(str, sizes))}"
            f"{others}",
            at=f"input {', '.join(owners)}",
        )
    ]


def _sizes_by_name(
    model: ir.Model, dims: Mapping[str, int], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, dict[int, list[str]]]:
    """The sizes that whole shapes and `dims` give each named dimension, and who has them.

    A formula has the size that follows from `dims`, too.
    """
    found: dict[str, dict[int, list[str]]] = {}
    for value in free_inputs(model):
        shape, old = shapes.get(value.name or ""), value.shape
        if shape is None or old is None or len(old) != len(shape):
            continue
        for dim, size in zip(old, shape, strict=True):
            if isinstance(dim, ir.SymbolicDim) and dim.value:
                owners = found.setdefault(str(dim.value), {}).setdefault(size, [])
                owners.append(quote(value.name or ""))
    known = {symbol: min(sizes) for symbol, sizes in found.items() if len(sizes) == 1} | dict(dims)
    for symbol, sizes in found.items():
        if symbol in dims:
            sizes.setdefault(dims[symbol], [])
        elif (formula := formula_of(symbol)) is not None and formula.names <= known.keys():
            try:
                sizes.setdefault(formula.value(known), [])
            except ZeroDivisionError:
                continue
    return found


def free_inputs(model: ir.Model) -> list[ir.Value]:
    """Graph inputs that are not initializers at the same time."""
    return [v for v in model.graph.inputs if (v.name or "") not in model.graph.initializers]


def _symbols(value: ir.Value) -> list[str]:
    """Names of the open dimensions of an input."""
    dims = value.shape or ()
    return [str(dim.value) for dim in dims if isinstance(dim, ir.SymbolicDim) and dim.value]


def _follow(symbols: Iterable[str], bound: dict[str, int]) -> list[Diagnostic]:
    """Adds sizes that follow from others to `bound`; returns contradictions to them."""
    faults: list[Diagnostic] = []
    for symbol in symbols:
        formula = formula_of(symbol)
        if formula is None or not formula.names <= bound.keys():
            continue
        with_sizes = ", ".join(f"{quote(name)} = {bound[name]}" for name in sorted(formula.names))
        try:
            size = formula.value(bound)
        except ZeroDivisionError:
            size = -1
        if size < 0:
            message = f"no size follows for {quote(symbol)} from {with_sizes}"
        elif bound.setdefault(symbol, size) != size:
            message = f"the size of {quote(symbol)} is {bound[symbol]}, and {size} for {with_sizes}"
        else:
            continue
        hint = "give sizes that fit together; what is made of others need not be given"
        faults.append(Diagnostic("MCM-I031", message, f"dimension {quote(symbol)}", hint))
    return faults


def _bind_value(value: ir.Value, bound: Mapping[str, int]) -> list[str]:
    """Sets the bound dimensions of an input in place.

    Returns:
        The symbols that are left open, once for each dimension; "" stands for a dimension without a
        name, and for a whole shape.
    """
    # Elements of a sequence differ in size; an optional may be absent.
    needed = isinstance(value.type, ir.TensorType)
    if value.shape is None:
        return [""] if needed else []
    left: list[str] = []
    sizes = list(value.shape)
    for axis, dim in enumerate(sizes):
        if isinstance(dim, int) and dim >= 0:
            continue
        symbol = str(dim.value or "") if isinstance(dim, ir.SymbolicDim) else ""
        if symbol in bound:
            sizes[axis] = bound[symbol]
        elif needed:
            left.append(symbol)
    value.shape = ir.Shape(sizes)
    return left


def sizes_of(value: ir.Value) -> tuple[int | str, ...] | None:
    """The declared shape of an input: sizes, and symbols of open dimensions; "" has no name.

    None where no shape is declared, or where the input is no tensor.
    """
    if value.shape is None or not isinstance(value.type, ir.TensorType):
        return None
    return tuple(map(_size_or_symbol, value.shape))


def _size_or_symbol(dim: int | ir.SymbolicDim) -> int | str:
    if isinstance(dim, int):
        return dim if dim >= 0 else ""
    return str(dim.value or "")


def _left_open(
    open_dims: Mapping[str, Sequence[str]], inputs: Mapping[str, ir.Value], bound: Mapping[str, int]
) -> list[Diagnostic]:
    """MCM-I030 for each symbol; the last one's hint is a line that gives all of them a size.

    Args:
        open_dims: names of the inputs that have each symbol; "" for dimensions without a name.
        inputs: by their names.
        bound: sizes that are known.
    """
    faults: list[Diagnostic] = []
    for number, (symbol, names) in enumerate(open_dims.items(), start=1):
        what = f"the dimension {quote(symbol)}" if symbol else "a dimension without a name"
        last = number == len(open_dims)
        faults.append(
            Diagnostic(
                "MCM-I030",
                f"{what} has no size",
                at=f"input {', '.join(dict.fromkeys(map(quote, names)))}",
                hint=_options_for(open_dims, inputs, bound) if last else None,
            )
        )
    return faults


def _options_for(
    open_dims: Mapping[str, Sequence[str]], inputs: Mapping[str, ir.Value], bound: Mapping[str, int]
) -> str:
    """`give sizes, such as --dim batch=1 --dim seq=128`, which can be copied as it is."""
    unnamed = dict.fromkeys(open_dims.get("", ()))
    options: dict[str, None] = {}
    usual = dict(bound)
    for symbol, names in open_dims.items():
        sizes = sizes_of(inputs[names[0]]) or ()
        axis = sizes.index(symbol) if symbol in sizes else 0
        formula = formula_of(symbol)
        asked = [symbol] if formula is None else sorted(formula.names - bound.keys())
        for name in asked:
            usual.setdefault(name, usual_size(name, axis, len(sizes)))
            # A dimension of inputs that get their whole shape is given by that.
            if name and not unnamed.keys() >= set(names):
                options[shlex.join(["--dim", f"{name}={usual[name]}"])] = None
    _follow(open_dims, usual)
    for name in unnamed:
        sizes = sizes_of(inputs[name])
        shape = ",".join(map(str, usual_shape(sizes, usual))) if sizes is not None else "N,..."
        options[shlex.join(["--shape", f"{name}={shape}"])] = None
    return f"give sizes, such as {' '.join(options)}"


def check_known(
    names: Iterable[str], known: Iterable[Iterable[str]], kind: str, flag: str
) -> list[Diagnostic]:
    """MCM-U005 for each of `names` that no model knows.

    Args:
        names: of dimensions or inputs, as the user gave them.
        known: of each model.
        kind: "dimension" or "input".
        flag: the option that gave them.
    """
    all_known = sorted({name for of_model in known for name in of_model} - {""})
    return [
        _unknown(f"no model has the {kind} {quote(name)}; they have", name, all_known, flag)
        for name in names
        if name not in all_known
    ]


def _apply_shape(value: ir.Value, shape: tuple[int, ...]) -> list[Diagnostic]:
    old = value.shape
    if old is not None and (
        len(old) != len(shape)
        or any(isinstance(d, int) and 0 <= d != size for d, size in zip(old, shape, strict=True))
    ):
        return [_contradiction(value, shape)]
    value.shape = ir.Shape(shape)
    return []


def _contradiction(value: ir.Value, shape: tuple[int, ...]) -> Diagnostic:
    return Diagnostic(
        "MCM-I031",
        f"the shape {list(shape)} contradicts the model, which says {value.shape}",
        at=f"input {quote(value.name or '')}",
        hint="fixed dimensions cannot be changed; export the model with dynamic axes for that",
    )


def _unknown(lack: str, name: str, known: list[str], flag: str) -> Diagnostic:
    near = difflib.get_close_matches(name, known, n=1)
    listed = ", ".join(map(quote, known[:20])) or "none"
    return Diagnostic(
        "MCM-U005",
        f"{lack}: {listed}",
        at=flag,
        hint=f"did you mean {quote(near[0])}?" if near else None,
    )
