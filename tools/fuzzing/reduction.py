"""Making a model that shows a fault smaller, while it still shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import onnx
from google.protobuf.message import DecodeError

REMOVABLE = ("node", "initializer", "value_info", "output", "input", "sparse_initializer")


def reductions(data: bytes, shows: Callable[[bytes], bool]) -> Iterator[bytes]:
    """Yields ever smaller models that `shows` accepts, each once it is found.

    Halves of the entries of each list of the graph are dropped, then quarters, down to single
    ones (delta debugging). A file that is not a model is left as it is.
    """
    try:
        model = onnx.ModelProto.FromString(data)
    except DecodeError:
        return
    for name in ("functions", "metadata_props", "doc_string", "training_info"):
        yield from _try_without(model, lambda m, n=name: m.ClearField(n), shows)
    for name in REMOVABLE:
        chunk = max(1, len(getattr(model.graph, name)) // 2)
        while chunk:
            at = len(getattr(model.graph, name))
            while at > 0:
                at -= chunk
                span = slice(max(0, at), at + chunk)
                yield from _try_without(
                    model, lambda m, n=name, s=span: getattr(m.graph, n).__delitem__(s), shows
                )
            chunk //= 2


def _try_without(
    model: onnx.ModelProto,
    remove: Callable[[onnx.ModelProto], None],
    shows: Callable[[bytes], bool],
) -> Iterator[bytes]:
    smaller = onnx.ModelProto()
    smaller.CopyFrom(model)
    remove(smaller)
    data = smaller.SerializeToString()
    if data != model.SerializeToString() and shows(data):
        model.CopyFrom(smaller)
        yield data
