"""Names of the files in the folder of a placement."""

from __future__ import annotations

from mcm_compiler.processes import staging

MANIFEST = staging.MANIFEST
PLACEMENT = "placement.json"
SCHEDULE = "schedule.json"
TARGET = "target.toml"
ANNOTATED = "annotated.onnx"
ANNOTATED_DATA = "annotated.onnx.data"
ONNXRUNTIME = "onnxruntime.json"
OPENVINO = "openvino.json"
REPORT_TEXT = "report.md"

SCHEMA_VERSION = 3
"""Of manifest, placement and schedule. Raised when a field changes its meaning or goes."""


def is_segment(name: str) -> bool:
    """Whether a file has the name of a segment's model."""
    return name.startswith("segment_") and name.endswith(".onnx")


def segment_file(segment: int) -> str:
    """The model of one segment."""
    return f"segment_{segment:03d}.onnx"
