"""Which weights a training step changes, and how they become its inputs."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

import numpy as np
import onnx_ir as ir

from mcm_compiler.contracts.zoo import SHAPE_ONLY, WEIGHTS_KEY
from mcm_compiler.processes.private_folders import private_folder
from mcm_compiler.processes.staging import refuse_irregular

_NOT_LEARNT = {"BatchNormalization": (3, 4), "Resize": (1, 2), "Upsample": (1,)}
"""Inputs that are measured, or that say what size the result has."""


def chosen_variables(model: ir.Model, pattern: str) -> list[ir.Value]:
    """The weights that may be trained, in the order of the graph.

    These are initializers of floating point; in a model of shapes alone also what fills take the
    place of. Scalars count only where a pattern other than `*` names them, and statistics of
    normalisation and scales of a `Resize` never: a constant such as an epsilon is an initializer,
    too.

    Args:
        model: the model.
        pattern: names with `*`, `?` and `[...]`, several divided by `|`; one with `!` in front
            takes names out that earlier ones let in.
    """
    weights = [*model.graph.initializers.values()]
    if model.metadata_props.get(WEIGHTS_KEY) == SHAPE_ONLY:
        weights += [
            node.outputs[0]
            for node in model.graph
            if node.op_type == "ConstantOfShape" and node.domain in ("", "ai.onnx")
        ]
    return [
        value
        for value in weights
        if value.dtype in FLOATS
        and (pattern != "*" or _elements(value) > 1)
        and not any(
            use.idx in _NOT_LEARNT.get(use.node.op_type, ()) and use.node.domain in ("", "ai.onnx")
            for use in value.uses()
        )
        and _chosen(value.name or "", pattern)
    ]


def make_inputs(
    graph: ir.Graph, variables: Sequence[ir.Value]
) -> dict[ir.Value, ir.TensorProtocol]:
    """Makes weights inputs of the graph, in place.

    Args:
        graph: the graph.
        variables: initializers, or results of ops that fill a tensor.

    Returns:
        The inputs with the value that each had.
    """
    found: dict[ir.Value, ir.TensorProtocol] = {}
    for variable in variables:
        node = variable.producer()
        if node is None:
            assert variable.const_value is not None
            found[variable] = variable.const_value
            graph.initializers.pop(variable.name or "")
            variable.const_value = None
            if not variable.is_graph_input():
                graph.inputs.append(variable)
            continue
        new = ir.Value(name=variable.name, type=variable.type, shape=variable.shape)
        found[new] = _fill(node)
        ir.convenience.replace_all_uses_with(variable, new, replace_graph_outputs=True)
        graph.remove(node, safe=True)
        graph.inputs.append(new)
    return found


def make_constant(graph: ir.Graph, variable: ir.Value, tensor: ir.TensorProtocol) -> None:
    """Makes an input an initializer again, in place."""
    graph.inputs.remove(variable)
    variable.const_value = tensor
    graph.register_initializer(variable)


def _fill(node: ir.Node) -> ir.TensorProtocol:
    """Tensor that a `ConstantOfShape` makes, made when it is asked for."""
    value = node.outputs[0]
    assert value.shape is not None
    assert value.dtype is not None
    fill = node.attributes.get("value")
    element = fill.as_tensor().numpy().reshape(-1)[0] if fill is not None else np.float32(0)
    return filled_tensor(value.name or "", tuple(value.shape.numpy()), value.dtype, element)


def filled_tensor(
    name: str, shape: tuple[int, ...], dtype: ir.DataType, element: object
) -> ir.TensorProtocol:
    """A tensor of equal elements, which is made when it is read and never kept."""
    make = partial(_full, name, shape, dtype, element)
    return ir.LazyTensor(make, dtype, ir.Shape(shape), name=name)


def _full(
    name: str, shape: tuple[int, ...], dtype: ir.DataType, element: object
) -> ir.TensorProtocol:
    return ir.tensor(np.full(shape, element, dtype.numpy()), name=name)


def _elements(value: ir.Value) -> int:
    shape = value.shape
    if shape is None or not shape.is_static():
        return 0
    return int(np.prod([int(dim) for dim in shape.numpy()], dtype=np.int64))


def _chosen(name: str, pattern: str) -> bool:
    chosen = False
    for part in pattern.split("|"):
        if fnmatchcase(name, part.removeprefix("!")):
            chosen = not part.startswith("!")
    return chosen


FLOATS = frozenset(
    {ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.BFLOAT16}
)
"""Element types that have gradients."""


_TIME = (1980, 1, 1, 0, 0, 0)
"""Of every entry, so that the bytes depend on the values alone."""


def write_initial_values(values: Mapping[str, ir.TensorProtocol], path: Path) -> None:
    """Writes an uncompressed `.npz` with an array by name, one at a time in memory.

    Args:
        values: by name of the input.
        path: the file; one that is there is replaced.

    Raises:
        OSError: if it cannot be written.
        CompileError: MCM-U050 if it would take the place of something that is no file.
    """
    refuse_irregular(path)
    with private_folder(path.absolute().parent) as folder:
        staged = folder / path.name
        with zipfile.ZipFile(staged, "w", allowZip64=True) as archive:
            for name, tensor in values.items():
                entry = zipfile.ZipInfo(f"{name}.npy", _TIME)
                with archive.open(entry, "w", force_zip64=True) as file:
                    np.lib.format.write_array(file, np.asarray(tensor.numpy()), allow_pickle=False)
        os.replace(staged, path)
