"""Plug-in: the learned network of mappings of fabrics as a mapping model, mappers and trainer.

    mcmc compile m.onnx --plugin tools/reproduce/mapping_network/plugin.py --mapping-model gnn

`ridge` is level with it or ahead in every flow of the record (`lcm_placers.py`), so that the
compiler itself is without it. `random`, the control, is a mapper here as well.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mcm_compiler import register

# The file is run by its path.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mapping_network.corrected_search import CorrectedAnnealing
from mapping_network.gnn import Gnn
from mapping_network.network_trainer import NetworkTrainer
from mapping_network.random_mapper import RandomMapper

register("mapper")(CorrectedAnnealing)
register("mapper")(RandomMapper)
register("mapping-model")(Gnn)
register("trainer")(NetworkTrainer)
