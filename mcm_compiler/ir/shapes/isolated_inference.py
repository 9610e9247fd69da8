"""Onnx's shape inference in a child process, because hostile models make it crash.

onnxruntime holds the same code and would crash as well, so that such a model is refused here,
before anything else sees it.
"""

from __future__ import annotations

from functools import partial

import onnx

from mcm_compiler.diagnostics import CompileError, quote
from mcm_compiler.graph.structure import all_graphs
from mcm_compiler.processes.bounded_child import ChildDiedError, answer_of_child, can_fork

MAX_GROWTH_BYTES = 1 << 30
"""Memory of the child beyond what its parent held, and eight times the size of the model."""

MAX_CPU_S = 10
CPU_S_PER_MIB = 2
"""Seconds of computing, and those for each MiB of the model; a model of 100,000 nodes takes one."""

_DONE, _REFUSED = b"d", b"r"

# onnx fills its table of ops at the first look: in the process that forks, not in each child.
onnx.defs.has("Add")


def infer_in_child(proto: onnx.ModelProto, strict: bool) -> list[onnx.GraphProto]:
    """Types and shapes as far as onnx infers them, data propagated.

    Where the system has no fork the inference runs in this process.

    Args:
        proto: left unchanged.
        strict: raise where inference of an op fails.

    Returns:
        The main graph and all within it in the order of `all_graphs`; of each its inputs, outputs
        and `value_info`, without nodes and weights.

    Raises:
        onnx.shape_inference.InferenceError: as onnx raises it; also for models that it cannot read.
        CompileError: MCM-I018 if the inference crashes or goes on and on.
    """
    if not can_fork():
        return list(_types_of(_infer(proto, strict)).graphs)

    size = proto.ByteSize()
    cpu_s = MAX_CPU_S + CPU_S_PER_MIB * (size >> 20)
    try:
        work = partial(_work, proto, strict)
        answer = answer_of_child(work, 8 * size + MAX_GROWTH_BYTES, cpu_s)
    except ChildDiedError as error:
        how = f"crashes on the model ({error})"
        if str(error) == "SIGXCPU":
            how = f"was stopped after {cpu_s} s of computing"
        raise CompileError.of(
            "MCM-I018", f"onnx's shape inference {how}", at=f"graph {quote(proto.graph.name)}"
        ) from None
    if answer[:1] == _REFUSED:
        raise onnx.shape_inference.InferenceError(answer[1:].decode("utf-8", "replace"))
    return list(onnx.AttributeProto.FromString(answer[1:]).graphs)


def _work(proto: onnx.ModelProto, strict: bool) -> bytes:
    try:
        return _DONE + _types_of(_infer(proto, strict)).SerializeToString()
    except Exception as error:  # inference raises several types
        return _REFUSED + str(error).encode("utf-8", "replace")


def _types_of(model: onnx.ModelProto) -> onnx.AttributeProto:
    """The graphs of `model` without nodes and weights, in the one message that holds a list."""
    graphs = onnx.AttributeProto()
    for graph in all_graphs(model.graph):
        bare = graphs.graphs.add()
        bare.input.MergeFrom(graph.input)
        bare.output.MergeFrom(graph.output)
        bare.value_info.MergeFrom(graph.value_info)
    return graphs


def _infer(proto: onnx.ModelProto, strict: bool) -> onnx.ModelProto:
    return onnx.shape_inference.infer_shapes(proto, strict_mode=strict, data_prop=True)
