"""A target of the ring family, described by a file in this package."""

from __future__ import annotations

from importlib import resources

from mcm_compiler.contracts.target import Target
from mcm_compiler.registry import TARGET_FAMILIES


def acme8() -> Target:
    """Eight chips; the family's code is found by name, so nothing of it is imported here."""
    text = resources.files("acme_passes").joinpath("acme8.toml").read_text(encoding="utf-8")
    return TARGET_FAMILIES.get("ring")("acme8", text)
