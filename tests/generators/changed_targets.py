"""Descriptions of targets with one resource changed, by their lines alone."""

from __future__ import annotations

import re

LINES = {
    "compute array": r"^rows = (\d+)$",
    "vector lanes": r"^lanes = (\d+)$",
    "SRAM": r"^sram_mib = (\d+)$",
    "link bandwidth": r"(?<=\[link\]\n)bandwidth_gb_per_s = (\d+)$",
    "host rate": r"(?<=\[host\]\n)bandwidth_gb_per_s = (\d+)$",
    "chips": r"^num_chips = (\d+)$",
}
"""The line of each resource that sensitivities name."""


def changed_target(text: str, resource: str, factor: float) -> str:
    """The description with so many times of the resource."""

    def changed(found: re.Match[str]) -> str:
        return found[0].replace(found[1], str(int(int(found[1]) * factor)))

    other, count = re.subn(LINES[resource], changed, text, flags=re.MULTILINE)
    assert count == 1
    return other
