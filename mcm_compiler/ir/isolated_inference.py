"""Onnx's shape inference in a child process, because hostile models make it crash.

onnxruntime holds the same code and would crash as well, so that such a model is refused here,
before anything else sees it. A fork costs a few milliseconds.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import onnx

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote

MAX_GROWTH_BYTES = 1 << 30
"""Memory of the child beyond what its parent held, and eight times the size of the model."""

_DONE, _REFUSED = b"d", b"r"
_STATM = Path("/proc/self/statm")


def infer_in_child(proto: onnx.ModelProto, strict: bool) -> onnx.ModelProto:
    """`proto` with types and shapes as far as onnx infers them, data propagated.

    Where the system has no fork the inference runs in this process.

    Args:
        proto: left unchanged.
        strict: raise where inference of an op fails.

    Raises:
        onnx.shape_inference.InferenceError: as onnx raises it; also for models that it cannot read.
        CompileError: MCM-I018 if the inference crashes.
    """
    if sys.platform == "win32":
        return _infer(proto, strict)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _serve(proto, strict, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        answer = stream.read()
    _, status = os.waitpid(child, 0)
    if answer[:1] == _DONE:
        return onnx.ModelProto.FromString(answer[1:])
    if answer[:1] == _REFUSED:
        raise onnx.shape_inference.InferenceError(answer[1:].decode("utf-8", "replace"))
    number = os.waitstatus_to_exitcode(status)
    how = signal.Signals(-number).name if number < 0 else f"exit status {number}"
    raise CompileError(
        Diagnostic(
            "MCM-I018",
            f"onnx's shape inference crashes on the model ({how})",
            at=f"graph {quote(proto.graph.name)}",
            hint="look for an op whose inputs have types that it does not take; the model would "
            "crash onnxruntime as well",
        )
    )


def _serve(proto: onnx.ModelProto, strict: bool, writing: int) -> None:
    """The child: answers on `writing` and ends, without any of this process's clean-up."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if sys.platform == "linux":
            _bound_memory(8 * proto.ByteSize() + MAX_GROWTH_BYTES)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 2)
        try:
            answer = _DONE + _infer(proto, strict).SerializeToString()
        except Exception as error:  # inference raises several types
            answer = _REFUSED + str(error).encode("utf-8", "replace")
        with os.fdopen(writing, "wb") as stream:
            stream.write(answer)
    finally:
        os._exit(0)


def _bound_memory(growth_bytes: int) -> None:
    """Inference with data propagation expands ranges and the like, however long they are."""
    import resource

    held = int(_STATM.read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    known = [hard] if hard != resource.RLIM_INFINITY else []
    resource.setrlimit(resource.RLIMIT_AS, (min([held + growth_bytes, *known]), hard))


def _infer(proto: onnx.ModelProto, strict: bool) -> onnx.ModelProto:
    return onnx.shape_inference.infer_shapes(proto, strict_mode=strict, data_prop=True)
