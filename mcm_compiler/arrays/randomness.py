"""Random generators that depend on a seed and a purpose alone."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

_WORD = (1 << 64) - 1


def seeded_generator(seed: int, purpose: str) -> np.random.Generator:
    """The same generator for the same seed and purpose, in every process and on every machine.

    `hash()` of a string differs from process to process; the digest that is taken here never does.
    """
    digest = hashlib.blake2b(f"{seed}/{purpose}".encode(), digest_size=16).digest()
    return np.random.default_rng(int.from_bytes(digest, "little"))


def generator_words(rng: np.random.Generator) -> NDArray[np.uint64]:
    """The state of a generator as six words, to be kept in a file; see `set_generator`."""
    found = rng.bit_generator.state
    halves = (found["state"][name] >> shift for name in ("state", "inc") for shift in (64, 0))
    words = [half & _WORD for half in halves]
    return np.array([*words, found["has_uint32"], found["uinteger"]], np.uint64)


def set_generator(rng: np.random.Generator, words: NDArray[np.uint64]) -> None:
    """Makes a generator go on from what `generator_words` gave.

    Raises:
        ValueError: for words that are no state.
    """
    state_high, state_low, inc_high, inc_low, has, spare = words.tolist()
    if has > 1 or spare >> 32 or inc_low % 2 == 0:
        raise ValueError("the words are no state of a generator")
    kept = {"state": state_high << 64 | state_low, "inc": inc_high << 64 | inc_low}
    rng.bit_generator.state = {
        "bit_generator": "PCG64", "state": kept, "has_uint32": has, "uinteger": spare
    }  # fmt: skip
