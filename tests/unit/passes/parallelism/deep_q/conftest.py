"""Decision problems."""

from __future__ import annotations

from mcm_compiler.processes.one_thread import use_one_thread
from tests.unit.passes.parallelism.decisions.conftest import decisions_of, objective_of  # noqa: F401

use_one_thread()
