"""Choices that targets, options and project files share; light to import."""

from __future__ import annotations

from typing import Literal

Routing = Literal["strict", "relay"]
"""Rule for long dependencies: `strict` is the paper's chip-triangle rule on the graph as it is
after cloning (MCM, Eq. 4); `relay` passes a tensor on from neighbour to neighbour."""

Fallback = Literal["host", "error"]
"""Handling of ops that chips cannot run: the host runs them, or the model is refused."""

QueueOrder = Literal["fifo", "critical_path"]
"""Which ready op a free device starts."""

MOST_SEQUENCES = 1024
"""Sequences in flight that a program may hold the states of."""

MOST_CLASSES = 256
"""Inferences that one pipeline may compute in a round."""
