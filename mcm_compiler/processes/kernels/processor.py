"""The processor level that kernels are compiled for."""

from __future__ import annotations

import functools
import platform

V3 = "x86-64-v3"
GENERIC = "generic"

_V3_FLAGS = frozenset(
    ("abm", "avx", "avx2", "bmi1", "bmi2", "cx16", "f16c", "fma", "lahf_lm", "movbe", "popcnt",
     "sse4_1", "sse4_2", "ssse3", "xsave")
)  # fmt: skip
"""Linux's names for the instructions of x86-64-v3."""


@functools.cache
def common_level() -> str:
    """The processor level that this machine shares with many others; empty where it has none."""
    machine = platform.machine().lower()
    if machine in ("aarch64", "arm64"):
        return GENERIC
    if machine in ("x86_64", "amd64") and _flags() >= _V3_FLAGS:
        return V3
    return ""


def _flags() -> frozenset[str]:
    """Instruction sets of the first core; empty where the system has no file of them."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith("flags"):
                    return frozenset(line.partition(":")[2].split())
    except OSError:
        pass
    return frozenset()
