"""Models of the study in `tools/reproduce/automap_study`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tools" / "reproduce"))

from automap_study.models import T5Automap, T5ElevenBillion, T5ThreeBillion, Vgg19Training

__all__ = ["T5Automap", "T5ElevenBillion", "T5ThreeBillion", "Vgg19Training"]
