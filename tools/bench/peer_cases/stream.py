"""Stream: a genetic algorithm that allocates layers to cores of an accelerator."""

from __future__ import annotations

from peer_cases.answers import Asked, Row
from peer_cases.environments import Environment, PeerFailedError

STREAM = Environment("stream", ("stream-dse==0.0.8",))

HOW = "as pip resolves it"


def answer(asked: Asked) -> Row:
    """Imports it."""
    STREAM.ask("import_only", {"module": "stream.api"})
    raise PeerFailedError("not asked")
