"""What one program comes to on one model, as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from peer_cases.cases import Case
from peer_cases.chains import Compared, Whole, pieces_of
from peer_cases.judging import Judged

Row = dict[str, Any]

DIGITS = 4
"""Of seconds that a program took."""


@dataclass(frozen=True)
class Spent:
    """Time that a program took for its division, without reading, judging and running it."""

    cpu_s: float
    wall_s: float


@dataclass(frozen=True, eq=False)
class Asked:
    """What every program is told of a model.

    Attributes:
        case: the model.
        whole: its outputs on a random input.
        count: parts to be made: the chips that our partition uses.
        folder: an empty one for files.
    """

    case: Case
    whole: Whole
    count: int
    folder: Path

    def model_file(self) -> Path:
        """The graph that is divided as a file, which is written once."""
        path = self.folder / "model.onnx"
        if not path.exists():
            self.case.write(path)
        return path


def row(
    asked: Asked,
    found: Judged,
    spent: Spent,
    *,
    parts: int,
    emitted: Sequence[onnx.ModelProto | Path] = (),
    note: str = "",
    chain: bool = True,
) -> Row:
    """The row of a program that answered.

    Args:
        asked: the model.
        found: its parts under our judge.
        spent: its time.
        parts: that it made.
        emitted: the models that it wrote; without any, ours of the counted partition are run.
        note: what else is to be told.
        chain: whether to run one.
    """
    ran, of = _chain(asked, found, emitted) if chain else (None, "")
    return {
        "status": "found",
        "period_s": found.period_s,
        "repaired_s": None if found.period_s is not None else found.repaired_s,
        "rule": found.fault,
        "circular": found.circular,
        "moved": found.moved,
        "parts": parts,
        "chips": found.chips,
        "cpu_s": round(spent.cpu_s, DIGITS),
        "wall_s": round(spent.wall_s, DIGITS),
        "chain": None if ran is None else vars(ran) | {"of": of},
        "note": note,
    }


def _chain(
    asked: Asked, found: Judged, emitted: Sequence[onnx.ModelProto | Path]
) -> tuple[Compared | None, str]:
    if emitted:
        return asked.whole.against(emitted), "emitted"
    chips = found.repaired
    if chips is None:
        return None, ""
    pieces = list(pieces_of(asked.case, asked.whole.proto, chips))
    return asked.whole.against(pieces), "as given" if found.period_s is not None else "repaired"
