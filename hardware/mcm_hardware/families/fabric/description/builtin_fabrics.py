"""The fabrics that come with the compiler; their descriptions are packaged TOML files."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from mcm_compiler.contracts.fabrics.fabric import Fabric
from mcm_hardware.families.fabric.description.fabric_file import FabricSpec, parse_fabric

BUILTIN_FABRICS = ("fabric-12", "fabric-16", "fabric-20")
"""Their names."""


@cache
def builtin_spec(name: str) -> FabricSpec:
    """A fabric of `BUILTIN_FABRICS`, with the text of its description."""
    folder = files("mcm_hardware.families.fabric.description") / "targets"
    return parse_fabric(name, (folder / f"{name}.toml").read_text(encoding="utf-8"))


def fabric_12() -> Fabric:
    """12 x 12 switches with 256 KiB per memory unit: 72 compute and 72 memory units."""
    return builtin_spec("fabric-12").fabric


def fabric_16() -> Fabric:
    """16 x 16 switches with 512 KiB per memory unit, for a layer of BERT-large."""
    return builtin_spec("fabric-16").fabric


def fabric_20() -> Fabric:
    """20 x 20 switches with 512 KiB per memory unit, for a layer of GPT2-XL."""
    return builtin_spec("fabric-20").fabric
