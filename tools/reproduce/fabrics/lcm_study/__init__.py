"""What the scripts on fabrics and their mapping models share."""

import sys
from pathlib import Path

# The network is next to the folder of these scripts.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
