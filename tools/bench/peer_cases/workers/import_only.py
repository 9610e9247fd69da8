"""Imports a module, which is as far as some programs come.

Runs in the environment of the program: `python import_only.py REQUEST.json ANSWER.json`.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path


def main(request: Path, answer: Path) -> None:
    """Imports the module of the request."""
    importlib.import_module(json.loads(request.read_text(encoding="utf-8"))["module"])
    answer.write_text("{}", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
