"""Values of every ONNX type to and from onnxruntime.

Its Python binding takes and gives NumPy arrays, lists, dicts and None, but none of the element
types that NumPy lacks (bfloat16, float8, int4 and the like). Those pass as copies of their memory,
and stand here as arrays of `ml_dtypes`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from mcm_compiler.processes.run_limits import quiet_onnxruntime

_REGISTERED = 2
"""`isbuiltin` of a NumPy type that another library has registered, here `ml_dtypes`."""

UNCONVERTED_TYPES = {
    kind.name.lower(): kind
    for kind in ir.DataType
    if kind not in (ir.DataType.UNDEFINED, ir.DataType.STRING)
    and kind.numpy().isbuiltin == _REGISTERED
}
"""Element types that the runtime's binding does not convert, by the runtime's names."""

_EXOTIC = {f"tensor({name})": dtype for name, dtype in UNCONVERTED_TYPES.items()}


def run_values(
    session: Any, feeds: Mapping[str, Any], outputs: Sequence[str], options: Any = None
) -> dict[str, Any]:
    """Runs a session on values of any type.

    Args:
        session: an `onnxruntime.InferenceSession`.
        feeds: values by graph input; None for an optional without a value.
        outputs: names to fetch.
        options: `onnxruntime.RunOptions`.

    Returns:
        Values by output: arrays, lists, dicts, or None.
    """
    kinds = {o.name: o.type for o in session.get_outputs()}
    exotic = [name for name in outputs if kinds.get(name) in _EXOTIC]
    plain = [name for name in outputs if kinds.get(name) not in _EXOTIC]
    given = {name: _given(value) for name, value in feeds.items()}
    found: dict[str, Any] = {}
    if plain:
        found.update(zip(plain, session.run(plain, given, options), strict=True))
    if exotic:
        ort = quiet_onnxruntime()

        as_values = {
            name: ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(value))
            if isinstance(value, np.ndarray)
            else value
            for name, value in given.items()
        }
        results = session.run_with_ort_values(exotic, as_values, options)
        for name, result in zip(exotic, results, strict=True):
            found[name] = _array_of(result, _EXOTIC[kinds[name]])
    return {name: found[name] for name in outputs}


def is_exotic(dtype: np.dtype[Any]) -> bool:
    """Return whether a type comes from `ml_dtypes`; the meaning of its `kind` differs by type."""
    return dtype.isbuiltin == 2


def _given(value: Any) -> Any:
    """The value as the binding takes it."""
    if isinstance(value, np.generic):
        value = np.asarray(value)
    if not isinstance(value, np.ndarray) or not is_exotic(value.dtype):
        return value
    ort = quiet_onnxruntime()

    proto = onnx.numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape))
    held = ort.OrtValue.ortvalue_from_shape_and_type(list(value.shape), proto.data_type)
    if proto.raw_data:
        ctypes.memmove(held.data_ptr(), proto.raw_data, len(proto.raw_data))
    return held


def _array_of(value: Any, dtype: ir.DataType) -> np.ndarray:
    size = value.tensor_size_in_bytes()
    data = ctypes.string_at(value.data_ptr(), size) if size else b""
    proto = onnx.TensorProto(dims=value.shape(), data_type=int(dtype), raw_data=data)
    return onnx.numpy_helper.to_array(proto)
