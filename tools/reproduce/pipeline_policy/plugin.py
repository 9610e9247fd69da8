"""Plug-in: the trainer of the pipeline policy.

    mcmc train pipeline --plugin tools/reproduce/pipeline_policy/plugin.py -o FOLDER

No verb asks the policy, because the exact search of `mcmc parallelize` takes about a CPU second; it
is measured by `automap_pp_inference.py`, so that the compiler itself is without it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mcm_compiler import register

# The file is run by its path.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pipeline_policy.trainer import PipelinePolicyTrainer

register("trainer")(PipelinePolicyTrainer)
