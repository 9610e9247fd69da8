"""Plug-in: the hierarchical planner and its controls as placers.

    mcmc place m.onnx --plugin tools/reproduce/hier_planner/plugin.py --placer hierarchical-groups

`local_search` is ahead of all three on every graph of the record (`hier_table1.py`), so that the
compiler itself is without them.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mcm_compiler import register

# The file is run by its path.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hier_planner.placers import Hierarchical, HierarchicalGroups, Logits

for _placer in (Hierarchical, HierarchicalGroups, Logits):
    register("placer")(_placer)
