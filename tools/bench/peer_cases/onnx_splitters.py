"""Programs that write one ONNX model per part: Simple Split for ONNX, and Olive's `SplitModel`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from peer_cases.answers import Asked, Row, Spent, row
from peer_cases.environments import Environment
from peer_cases.judging import Parts, best_of, parts_of_ops

SSP4ONNX = Environment("ssp4onnx", ("ssp4onnx==1.0.4",))

OLIVE = Environment(
    "olive",
    ("olive-ai==0.13.0", "torch==2.13.0", "onnxruntime==1.31.1", "onnx==1.23.2", "requests"),
)
"""It imports requests, which it does not ask for."""

SHARES = (0.5, 1.0, 1.5, 2.0)
"""Of a part's equal share of the weights, tried as the size at which ssp4onnx splits."""


def ssp4onnx(asked: Asked) -> Row:
    """The best of some sizes."""
    weights = sum(len(w.raw_data) or w.ByteSize() for w in asked.whole.proto.graph.initializer)
    told: list[dict[str, Any]] = []
    cpu_s = wall_s = 0.0
    for share in SHARES:
        request = {
            "model": str(asked.model_file()),
            "kilobytes": max(round(weights / asked.count * share / 1024), 1),
            "out": str(asked.folder / f"ssp4onnx-{share}"),
        }
        answer, child = SSP4ONNX.ask("ssp4onnx_split", request)
        wall_s += child.seconds
        cpu_s += answer["cpu_s"]
        told.append(answer)
    return _best(asked, told, Spent(cpu_s, wall_s))


def olive(asked: Asked) -> Row:
    """Its pieces by number of modules."""
    out = asked.folder / "olive"
    request = {"model": str(asked.model_file()), "count": asked.count, "out": str(out)}
    answer, child = OLIVE.ask("olive_split", request)
    return _best(asked, [answer], Spent(answer["cpu_s"], child.seconds))


def _best(asked: Asked, told: Sequence[Mapping[str, Any]], spent: Spent) -> Row:
    """The row of the best of some sets of pieces."""
    translated = [_parts(asked, answer) for answer in told]
    best, chosen = best_of(asked.case.problem, [parts for parts, _ in translated])
    divided = translated[chosen][1]
    files = [Path(piece["file"]) for piece in told[chosen]["pieces"]]
    note = f"cuts through {divided} fused units, which were kept whole" if divided else ""
    return row(asked, best, spent, parts=len(files), emitted=files, note=note)


def _parts(asked: Asked, answer: Mapping[str, Any]) -> tuple[Parts, int]:
    part_of: dict[str, int] = {}
    # An op that stands in several pieces counts for the first, which makes it.
    for part, piece in reversed(list(enumerate(answer["pieces"]))):
        part_of |= dict.fromkeys(piece["ops"], part)
    return parts_of_ops(asked.case.problem, part_of)
