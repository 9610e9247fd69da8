"""onnxruntime without telemetry.

It queues events, among them names of graphs, in a database below the home folder and sends them to
a host, unless an environment variable forbids it before the library is loaded.
"""

from __future__ import annotations

import os
import sys
from typing import Any

TELEMETRY_VARIABLE = "ORT_DISABLE_TELEMETRY"
"""Read by onnxruntime when it is loaded; a user's setting stays."""


def quiet_onnxruntime() -> Any:
    """The module, with telemetry off unless a user has set otherwise; the environment is kept."""
    if "onnxruntime" in sys.modules or TELEMETRY_VARIABLE in os.environ:
        import onnxruntime

        return onnxruntime
    os.environ[TELEMETRY_VARIABLE] = "1"
    try:
        import onnxruntime

        # It was off while the library was loaded; the call keeps it off.
        if hasattr(onnxruntime, "disable_telemetry_events"):
            onnxruntime.disable_telemetry_events()
        return onnxruntime
    finally:
        del os.environ[TELEMETRY_VARIABLE]
