"""Pipelines by deep Q-learning, of `tools/reproduce`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[4] / "tools" / "reproduce"))

from tests.unit.passes.parallelism.conftest import imported  # noqa: F401
