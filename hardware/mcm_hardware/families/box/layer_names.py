"""Which layer an op belongs to, by its name."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from mcm_compiler.arrays.types import Ints

_NUMBERED = re.compile(
    r"(?:^|\.)(?:"
    r"(?:layers?|h|blocks?|stages?|features|cells?|lstm|gru|rnn)[._]?\d+(?:\.\d+)?"
    r"|(?:mixed|conv2d|inception)_?\d+[a-z]?"
    r")(?=[._]|$)",
    re.IGNORECASE,
)
_FIRST = re.compile(r"embed|attention|(?:^|\.)(?:w[tp]e|stem)(?=[._]|$)", re.IGNORECASE)
_LAST = re.compile(
    r"softmax|logits|projection|classifier|(?:^|\.)(?:lm_)?(?:head|loss|fc|pooler)(?=[._]|$)",
    re.IGNORECASE,
)


def layers_of(names: Sequence[str]) -> Ints:
    """`[N]`, the layer of each op, or -1.

    A layer is a numbered scope such as `encoder.layer.3`, `layer1.0`, `h.2` or `Mixed_7c`; layers
    count in the order in which their first ops stand. Names of embeddings, and of attention outside
    numbered scopes, mean the first layer below the same outermost scope, or of all; names of
    projections and losses mean the last one.
    A gradient's op, `grad/NAME/...`, is of the layer of the op `NAME`, and what clips and updates
    a variable, `clip/NAME/...` and `update/NAME/...`, of the layer of the variable.

    Args:
        names: of the ops, in a topological order.
    """
    number_of: dict[str, int] = {}
    first_of: dict[str, int] = {}
    plain = [_plain(name) for name in names]
    layers = np.full(len(names), -1, np.int32)
    for n, name in enumerate(plain):
        match = _NUMBERED.search(name)
        if match is not None:
            layers[n] = number_of.setdefault(name[: match.end()].lower(), len(number_of))
            first_of.setdefault(name.partition(".")[0], int(layers[n]))
    if not number_of:
        return layers
    for n in np.flatnonzero(layers < 0).tolist():
        if _FIRST.search(plain[n]):
            layers[n] = first_of.get(plain[n].partition(".")[0], 0)
        elif _LAST.search(plain[n]):
            layers[n] = len(number_of) - 1
    return layers


def _plain(name: str) -> str:
    """The name with its scopes behind dots, without what training put in front of it."""
    name = name.removeprefix("grad/").removeprefix("clip/").removeprefix("update/")
    return ".".join(part for part in name.split("/") if part)
