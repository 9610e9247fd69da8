"""Plug-in: the workloads of Auto-MAP as models of the zoo.

mcmc parallelize zoo:t5-3b --plugin tools/reproduce/automap_study/plugin.py
"""

from __future__ import annotations

import sys
from pathlib import Path

from mcm_compiler import register

# The file is run by its path.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from automap_study.models import T5Automap, T5ElevenBillion, T5ThreeBillion, Vgg19Training

for _builder in (T5Automap, T5ThreeBillion, T5ElevenBillion, Vgg19Training):
    register("zoo")(_builder)
