"""Programs that write one ONNX model per part: Simple Split for ONNX, and Olive's `SplitModel`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from peer_cases.answers import Asked, Row, Spent, row
from peer_cases.environments import Environment
from peer_cases.judging import Judged, best_of, judged, parts_of_ops

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
    path = _written(asked)
    weights = sum(len(w.raw_data) or w.ByteSize() for w in asked.whole.proto.graph.initializer)
    told: list[dict[str, Any]] = []
    cpu_s = wall_s = 0.0
    for share in SHARES:
        kilobytes = max(round(weights / asked.count * share / 1024), 1)
        out = asked.folder / f"ssp4onnx-{share}"
        request = {"model": str(path), "kilobytes": kilobytes, "out": str(out)}
        start = time.perf_counter()
        answer, _ = SSP4ONNX.ask("ssp4onnx_split", request)
        wall_s += time.perf_counter() - start
        cpu_s += answer["cpu_s"]
        told.append(answer)
    best, chosen = best_of(asked.case.problem, [_parts(asked, one)[0] for one in told])
    return _row(asked, best, told[chosen], Spent(cpu_s, wall_s))


def olive(asked: Asked) -> Row:
    """Its pieces by number of modules."""
    path = _written(asked)
    out = asked.folder / "olive"
    request = {"model": str(path), "count": asked.count, "out": str(out)}
    start = time.perf_counter()
    answer, _ = OLIVE.ask("olive_split", request)
    spent = Spent(answer["cpu_s"], time.perf_counter() - start)
    best = judged(asked.case.problem, _parts(asked, answer)[0])
    return _row(asked, best, answer, spent)


def _written(asked: Asked) -> Path:
    path = asked.folder / "model.onnx"
    if not path.exists():
        asked.case.write(path)
    return path


def _parts(asked: Asked, answer: Mapping[str, Any]) -> tuple[Any, int]:
    part_of: dict[str, int] = {}
    # An op that stands in several pieces counts for the first, which makes it.
    for part, piece in reversed(list(enumerate(answer["pieces"]))):
        part_of |= dict.fromkeys(piece["ops"], part)
    return parts_of_ops(asked.case.problem, part_of)


def _row(asked: Asked, best: Judged, answer: Mapping[str, Any], spent: Spent) -> Row:
    files = [Path(piece["file"]) for piece in answer["pieces"]]
    divided = _parts(asked, answer)[1]
    note = f"cuts through {divided} fused units, which were kept whole" if divided else ""
    return row(asked, best, spent, parts=len(files), emitted=files, note=note)
