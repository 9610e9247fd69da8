"""Programs that come to no answer here: they are installed and asked, and their words are kept."""

from __future__ import annotations

from dataclasses import dataclass

from peer_cases.answers import Asked, Row
from peer_cases.environments import Environment, PeerFailedError


@dataclass(frozen=True)
class Refusing:
    """A program of which an installation or an import is tried.

    Attributes:
        name: in tables.
        distribution: on PyPI.
        module: that is imported.
        how: what it would want.
        environment: of its own.
    """

    name: str
    distribution: str
    module: str
    how: str
    environment: Environment

    def ask(self, _asked: Asked) -> Row:
        """Raises PeerFailedError with what the program says."""
        self.environment.ask("import_only", {"module": self.module})
        raise PeerFailedError("it takes no ONNX model, and here no PyTorch or JAX model is at hand")


PROGRAMS = (
    Refusing(
        "Alpa",
        "alpa",
        "alpa",
        "device placement and pipelines of JAX programs",
        Environment("alpa", ("alpa==0.2.3",)),
    ),
)
