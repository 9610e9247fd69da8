"""Random generators that depend on a seed and a purpose alone."""

from __future__ import annotations

import hashlib

import numpy as np


def seeded_generator(seed: int, purpose: str) -> np.random.Generator:
    """The same generator for the same seed and purpose, in every process and on every machine.

    `hash()` of a string differs from process to process; the digest that is taken here never does.
    """
    digest = hashlib.blake2b(f"{seed}/{purpose}".encode(), digest_size=16).digest()
    return np.random.default_rng(int.from_bytes(digest, "little"))
