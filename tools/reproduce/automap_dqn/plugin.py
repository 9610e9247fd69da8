"""Plug-in: plans with a record of how far deep Q-learning ends from them.

    mcmc parallelize MODEL --plugin tools/reproduce/automap_dqn/plugin.py --planner auto-map-dqn

The plan is that of `auto-map`, whose methods are exact, so that the compiler itself learns none.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mcm_compiler import register

# The file is run by its path.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from automap_dqn.planner import AutoMapDqn

register("planner")(AutoMapDqn)
