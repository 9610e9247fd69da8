"""Ops that are like no other: they draw random numbers, or nobody knows what they do.

Two draws are two values, however alike their ops are; so each such op of the model has an identity
of its own, and one op of the chips may take it. Which of several draws that are alike stands for
which makes no difference, as they are equally distributed and independent; names only say where
to begin.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable

from mcm_compiler.equivalence.values.value_numbers import OpKey, ValueNumbers
from mcm_compiler.graph.constants import RANDOM_OPS
from mcm_compiler.graph.rounds import class_of

_KNOWN_DOMAINS = frozenset({"", "com.microsoft", "ai.onnx.ml"})


def is_like_no_other(key: OpKey, numbers: ValueNumbers) -> bool:
    """Return whether an op may give another result than one that looks the same."""
    if key.domain not in _KNOWN_DOMAINS:
        return True
    if key.domain:
        return False
    if key.op_type == "Dropout":
        training = key.inputs[2] if len(key.inputs) > 2 else None
        content = numbers.known_content(training)
        return training is not None and (
            content is None or bool(numbers.contents.array(content).any())
        )
    return key.op_type in RANDOM_OPS


class OwnIdentities:
    """Gives identities to the ops of a model, and hands them out to those of the chips.

    Args:
        classes: of a round, each of which draws what the model draws.

    Attributes:
        given: how often an identity was asked for.
        node: name of the op of the main graph that asks, which shows its class.
        repeated: names of outputs of ops that took one that another op has.
    """

    def __init__(self, classes: int = 1) -> None:
        self.given = 0
        self.node = ""
        self._classes = classes
        self.repeated: list[str] = []
        self._source: dict[OpKey, dict[str, int]] = {}
        self._free: list[dict[OpKey, dict[str, int]]] | None = None

    def begin_source(self) -> None:
        """The next ops are those of the model."""
        self._source, self._free, self.given = {}, None, 0

    def begin_chips(self) -> None:
        """The next ops are those of the chips, which take the identities of the model's."""
        self._free = [
            {key: dict(names) for key, names in self._source.items()} for _ in range(self._classes)
        ]
        self.repeated = []

    def of(self, key: OpKey, name: str) -> Hashable:
        """The identity of an op whose first output has this name."""
        self.given += 1
        if self._free is None:
            known = self._source.setdefault(key, {})
            taken = name
            while taken in known:
                taken += "'"
            known[taken] = self.given
            return ("own", self.given)
        drawn_by = class_of(self.node) if self._classes > 1 else None
        # What all classes share takes an identity from each.
        free = self._free if drawn_by is None else self._free[drawn_by[1] :][:1]
        alike = [of_class.get(key, {}) for of_class in free]
        own = (class_of(name) if drawn_by else None) or (name, 0)
        for taken in itertools.chain(own[:1], alike[0]) if alike else ():
            if all(taken in names for names in alike):
                (identity, *_) = [names.pop(taken) for names in alike]
                return ("own", identity)
        self.repeated.append(name)
        return ("more", self.given, name)
