"""The test cases that onnx ships for backends: models with inputs and expected outputs."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx

CATEGORIES = ("node", "simple", "pytorch-operator", "pytorch-converted", "light")
"""All groups of cases, in the order in which they are run."""

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"

QUICK_STRIDE = {"node": 16, "simple": 4, "pytorch-operator": 8, "pytorch-converted": 12, "light": 9}
"""Of each category, every so many-th case belongs to the quick subset."""

RTOL, ATOL = 1e-3, 1e-7
"""What onnx's own runner allows where a case does not say otherwise."""


@dataclass(frozen=True)
class Case:
    """One case.

    Attributes:
        category: one of `CATEGORIES`.
        name: as in onnx.
        model: the model.
        data_sets: inputs and expected outputs, each in the order of the graph's, as protobuf
            messages; empty where the case brings none.
        rtol: relative tolerance of the expected outputs.
        atol: absolute tolerance of the expected outputs.
    """

    category: str
    name: str
    model: onnx.ModelProto
    data_sets: tuple[tuple[tuple[Any, ...], tuple[Any, ...]], ...]
    rtol: float
    atol: float


def collect(quick: bool) -> list[Case]:
    """All cases, sorted by category and name, or the quick subset of them."""
    by_category = {
        "node": _node_cases(),
        "light": _light_cases(),
        **{c: _file_cases(c) for c in ("simple", "pytorch-operator", "pytorch-converted")},
    }
    cases: list[Case] = []
    for category in CATEGORIES:
        ordered = sorted(by_category[category], key=lambda case: case.name)
        cases += ordered[:: QUICK_STRIDE[category]] if quick else ordered
    return cases


def _node_cases() -> Iterator[Case]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        found = collect_testcases(None)
    for case in found:
        model = cast("onnx.ModelProto", case.model)
        data_sets = tuple(
            (
                tuple(map(as_message, values, model.graph.input)),
                tuple(map(as_message, results, model.graph.output)),
            )
            for values, results in case.data_sets or ()
        )
        yield Case("node", case.name, model, data_sets, case.rtol, case.atol)


def as_message(value: Any, info: onnx.ValueInfoProto) -> Any:
    """The protobuf message of a value as the generators of onnx hand it out."""
    if isinstance(value, onnx.TensorProto):
        return value
    kind = info.type.WhichOneof("value")
    if kind == "optional_type":
        return onnx.numpy_helper.from_optional(value, info.name)
    if kind == "sequence_type":
        return onnx.numpy_helper.from_list(value, info.name)
    return onnx.numpy_helper.from_array(np.asarray(value), info.name)


def _file_cases(category: str) -> Iterator[Case]:
    for folder in (DATA / category).glob("*/"):
        if not (folder / "model.onnx").is_file():
            continue
        model = onnx.load(folder / "model.onnx")
        data_sets = tuple(
            (
                _messages(data, "input", model.graph.input),
                _messages(data, "output", model.graph.output),
            )
            for data in sorted(folder.glob("test_data_set_*"))
        )
        yield Case(category, folder.name, model, data_sets, RTOL, ATOL)


def _light_cases() -> Iterator[Case]:
    """The light models; they bring no inputs, and their weights are filled by the judge."""
    for path in (DATA / "light").glob("light_*.onnx"):
        yield Case("light", path.stem, onnx.load(path), (), RTOL, ATOL)


def _messages(folder: Path, stem: str, infos: Any) -> tuple[Any, ...]:
    messages: list[Any] = []
    for index, info in enumerate(infos):
        path = folder / f"{stem}_{index}.pb"
        if path.is_file():
            messages.append(_parse(path.read_bytes(), info))
    return tuple(messages)


def _parse(data: bytes, info: onnx.ValueInfoProto) -> Any:
    kinds: dict[str | None, Any] = {
        "sequence_type": onnx.SequenceProto,
        "optional_type": onnx.OptionalProto,
    }
    message = kinds.get(info.type.WhichOneof("value"), onnx.TensorProto)()
    message.ParseFromString(data)
    return message
