"""Transfers and memory of a folder with states, counted from its ONNX files and JSON alone.

Shares no code with the compiler: sizes come from the protos, widths of stored elements from the
test, and what stays on a chip from the definition of a state.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import onnx


def shape_of(value: onnx.ValueInfoProto) -> list[int]:
    return [dim.dim_value for dim in value.type.tensor_type.shape.dim]


def bytes_of(value: onnx.ValueInfoProto, widths: dict[str, int]) -> int:
    kind = onnx.TensorProto.DataType.Name(value.type.tensor_type.elem_type)
    return -(-math.prod(shape_of(value)) * widths[kind] // 8)


class ReferenceStates:
    """What a folder's models say of its states.

    Args:
        folder: an output folder.
        widths: bits of an element on a chip and on a link, by ONNX type.
        alignment: bytes that each buffer is rounded up to.
    """

    def __init__(self, folder: Path, widths: dict[str, int], alignment: int) -> None:
        self._widths = widths
        self._alignment = alignment
        self._manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
        self._program: dict[str, Any] = json.loads((folder / "program.json").read_text())
        source = onnx.load(folder / "annotated.onnx", load_external_data=False).graph
        stored = {tensor.name for tensor in source.initializer}
        self._inputs = {v.name: v for v in source.input if v.name not in stored}
        self._outputs = {v.name: v for v in source.output}
        self._graphs = {
            chip["chip"]: onnx.load(folder / chip["file"], load_external_data=False).graph
            for chip in self._manifest["chips"]
        }

    @property
    def pairs(self) -> dict[str, str]:
        return {row["past"]: row["present"] for row in self._manifest["states"]["held"]}

    def homes(self) -> dict[str, set[int]]:
        """Chips whose models take a past or give its present."""
        found: dict[str, set[int]] = {past: set() for past in self.pairs}
        for chip, graph in self._graphs.items():
            inputs = {value.name for value in graph.input}
            outputs = {value.name for value in graph.output}
            for past, present in self.pairs.items():
                if past in inputs or present in outputs:
                    found[past].add(chip)
        return found

    def host_bytes(self) -> tuple[int, int]:
        """Bytes that enter the package and leave it in an inference, each tensor once a chip."""
        pairs = self.pairs
        readers = Counter(
            value.name
            for graph in self._graphs.values()
            for value in graph.input
            if value.name in self._inputs
        )
        entering = sum(
            bytes_of(value, self._widths) * readers[name]
            for name, value in self._inputs.items()
            if name not in pairs
        )
        leaving = sum(
            bytes_of(value, self._widths)
            for name, value in self._outputs.items()
            if name not in pairs.values()
        )
        return entering, leaving

    def simulated_host_bytes(self, report: dict[str, Any]) -> tuple[int, int]:
        """The same as a report's links have it."""
        into = sum(link["bytes_per_inference"] for link in report["links"] if link["source"] == -1)
        out = sum(
            link["bytes_per_inference"] for link in report["links"] if link["destination"] == -1
        )
        return into, out

    def state_bytes(self, sequences: int) -> dict[int, int]:
        """Bytes that the states of so many sequences take on each chip.

        A present that some op appends to its past lies where the past does; any other is written
        to a buffer of its own.
        """
        held: dict[int, int] = {}
        for chip, graph in self._graphs.items():
            for past, present in self.pairs.items():
                maker = next((n for n in graph.node if present in n.output), None)
                if maker is None:
                    continue
                grows = maker.op_type == "Concat" and maker.input[0] == past
                size = bytes_of(self._outputs[present], self._widths)
                room = -(-size // self._alignment) * self._alignment
                held[chip] = held.get(chip, 0) + room * (sequences + (not grows))
        return held

    def planned_state_bytes(self) -> dict[int, int]:
        """The same as the memory plan has it."""
        held: dict[int, int] = {}
        for chip in self._program["chips"]:
            size = sum(b["size_bytes"] for b in chip["buffers"] if b["kind"] == "state")
            if size:
                held[chip["chip"]] = size
        return held
