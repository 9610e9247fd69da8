"""Plug-in: the models of the study as models of the zoo.

mcmc opt zoo:nmt-training --plugin tools/reproduce/hier_study/plugin.py
"""

from __future__ import annotations

import sys
from pathlib import Path

from mcm_compiler import register

# The file is run by its path.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hier_study.training_models import InceptionV3Training, NmtTraining, ResNet50Training

for _builder in (InceptionV3Training, NmtTraining, ResNet50Training):
    register("zoo")(_builder)
