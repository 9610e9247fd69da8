"""The pipeline policy of `tools/reproduce`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[4] / "tools" / "reproduce"))
