"""Plug-in: the planner `auto-map-dqn-pipelines`, which learns where to cut a pipeline as well.

    mcmc parallelize MODEL --target config-c --training
        --plugin tools/reproduce/automap_dqn/plugin.py --planner auto-map-dqn-pipelines

Exact search finds the best cuts in about a CPU second, and learning takes up to 16 s and never
beats it, so that the compiler itself is without it. `automap_pp.py` measures it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mcm_compiler import register

# The file is run by its path.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from automap_dqn.planner import AutoMapDqnPipelines

register("planner")(AutoMapDqnPipelines)
