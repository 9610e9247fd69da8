"""The models of the table, and the packages that they are placed on."""

from __future__ import annotations

import math
import re

from mcm_compiler.components.cost_choice import with_cost_model
from mcm_compiler.components.cost_files import user_files
from mcm_compiler.components.target_loading import load_target, target_from_text
from mcm_compiler.contracts.target import Target

PACKAGE = "mcm36"
"""The roomy package; the tight ones differ from it in chips and memory alone."""

MODELS = {
    "ResNet-50": "zoo:resnet50{shape_only=true}",
    "Inception-V3": "zoo:inception-v3{shape_only=true}",
    "BERT-large": "zoo:bert-large{shape_only=true}",
    "NMT unrolled": "zoo:gnmt{shape_only=true}",
    "T5": "zoo:t5{shape_only=true}",
    "GPT-2": "zoo:gpt2{shape_only=true}",
}

STRICT = frozenset({"ResNet-50", "Inception-V3", "BERT-large"})
"""Models that are also partitioned under the triangle rule."""

LONG = frozenset(
    {
        ("NMT unrolled", "roomy"),
        ("NMT unrolled", "tight"),
        ("T5", "roomy"),
        ("T5", "tight36"),
        ("GPT-2", "tight36"),
    }
)
"""Models and kinds of packages on which the long search runs: on the others it has found nothing
that the default has not."""

QUICK = "ResNet-50"

TIGHTNESS = 1.3
"""Memory of all chips together over a model's weights, on a tight package."""


def package(chips: int | None = None, sram_mib: float | None = None) -> Target:
    """`PACKAGE` under the roofline, with a number of chips and memory of each, where given."""
    text = load_target(PACKAGE).source_text
    for key, value in (("num_chips", chips), ("sram_mib", sram_mib)):
        if value is None:
            continue
        text, count = re.subn(rf"(?m)^{key} = .*$", f"{key} = {value}", text)
        if count != 1:
            raise ValueError(f"{PACKAGE}.toml has {count} lines with {key}")
    return with_cost_model(target_from_text(PACKAGE, text), "roofline", user_files(None))


def sram_mib_for(weight_bytes: int, chips: int, factor: float) -> float:
    """Memory of a chip such that all have `factor` times the weights together.

    Rounded up to two digits after the point, which keep the description readable.
    """
    return math.ceil(factor * weight_bytes / chips / 2**20 * 100) / 100
