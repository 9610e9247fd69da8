"""JAX on one thread, and the network of `tools/reproduce`."""

from __future__ import annotations

import sys
from pathlib import Path

from mcm_compiler.processes.one_thread import use_one_thread

use_one_thread()
sys.path.insert(0, str(Path(__file__).parents[4] / "tools" / "reproduce"))
