"""Names of the files in the folder of a placement."""

from __future__ import annotations

from mcm_compiler.artifact.layout import ANNOTATED, ANNOTATED_DATA, MANIFEST, REPORT_TEXT, TARGET

__all__ = ["ANNOTATED", "ANNOTATED_DATA", "MANIFEST", "REPORT_TEXT", "TARGET"]
"""Files that compiled folders have under the same names."""

PLACEMENT = "placement.json"
SCHEDULE = "schedule.json"
ONNXRUNTIME = "onnxruntime.json"
OPENVINO = "openvino.json"

SCHEMA_VERSION = 3
"""Of manifest, placement and schedule. Raised when a field changes its meaning or goes."""


def is_segment(name: str) -> bool:
    """Whether a file has the name of a segment's model."""
    return name.startswith("segment_") and name.endswith(".onnx")


def segment_file(segment: int) -> str:
    """The model of one segment."""
    return f"segment_{segment:03d}.onnx"
