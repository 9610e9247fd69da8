"""Stream: a genetic algorithm that allocates layers to cores of an accelerator."""

from __future__ import annotations

from peer_cases.answers import Asked, Row, Spent, row
from peer_cases.environments import Environment, PeerFailedError
from peer_cases.judging import judged, parts_of_ops

NEWEST = Environment("stream", ("stream-dse==0.0.8",))
"""As pip resolves it, with a ZigZag in which modules have other names."""

STREAM = Environment(
    "stream-zigzag2",
    (
        "stream-dse==0.0.8",
        "zigzag-dse==2.5.4",
        "numpy==1.26.4",
        "onnx==1.16.2",
        "pandas==2.2.3",
        "plotly",
    ),
)
"""With packages of its time, two of which it imports and does not ask for."""

ONLY = ("ResNet-50", "U-Net")
"""Models that it is asked about, since it takes minutes."""

LIMIT_S = 120
"""CPU-seconds of a model."""

LOOPS, INDIVIDUALS, GENERATIONS = 3, 16, 16
"""Loops of ZigZag's search in a core, and the size of the genetic algorithm."""

HOW = (
    "its own TPU-like cores in a row, whole layers, and its genetic algorithm with "
    f"{INDIVIDUALS} individuals and {GENERATIONS} generations; at most {LIMIT_S} CPU-seconds, and "
    f"only for {' and '.join(ONLY)}, since it takes minutes; it allocates layers that multiply, "
    "and the other ops go with the unit before them"
)


def newest(_asked: Asked) -> Row:
    """What comes of it as pip resolves it."""
    NEWEST.ask("import_only", {"module": "stream.api"})
    raise PeerFailedError("it imports, and is asked with the older ZigZag alone")


def answer(asked: Asked) -> Row:
    """The allocation of layers."""
    request = {
        "model": str(asked.model_file()),
        "out": str(asked.folder / "stream.pickle"),
        "count": asked.count,
        "limit_s": LIMIT_S,
        "loops": LOOPS,
        "individuals": INDIVIDUALS,
        "generations": GENERATIONS,
    }
    told, child = STREAM.ask("stream_allocation", request)
    spent = Spent(told["cpu_s"], child.seconds)
    parts, _ = parts_of_ops(asked.case.problem, told["part_of"])
    note = f"it allocates {len(told['part_of'])} of {len(asked.whole.proto.graph.node)} ops"
    found = judged(asked.case.problem, parts)
    return row(asked, found, spent, parts=int(parts.max()) + 1, note=note)
