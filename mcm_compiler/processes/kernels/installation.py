"""The name of an installation, which tells it from those before and after it."""

from __future__ import annotations

import functools
from pathlib import Path

PACKAGES = ("mcm_compiler", "mcm_passes", "mcm_hardware", "mcm_models")
"""Import packages of the distribution."""

PREFIX = "mcm-"

HOME = Path(__file__).parents[3]
"""Where the packages lie: site-packages, or a folder of a checkout."""

_RECORDS = "mcm_compiler-*.dist-info/RECORD"


@functools.cache
def installation_name(home: Path = HOME) -> str:
    """A name by the hashes of all installed files; empty for a checkout, which has no such list.

    Args:
        home: the folder of the import package `mcm_compiler`.
    """
    import hashlib  # not for those who only ask for help

    records = sorted(home.glob(_RECORDS))
    if not records:
        return ""
    content = b"".join(record.read_bytes() for record in records)
    return f"{PREFIX}{hashlib.sha256(content).hexdigest()[:12]}"
