"""Generators by purpose, and their states as words."""

from __future__ import annotations

import numpy as np
import pytest

from mcm_compiler.arrays.randomness import generator_words, seeded_generator, set_generator


@pytest.mark.parametrize("odd", [False, True])
def test_a_generator_goes_on_from_its_words(odd: bool) -> None:
    rng = seeded_generator(3, "words")
    rng.random(5, np.float32)
    # Half of a word is kept for the next single-precision number.
    rng.random(int(odd), np.float32)
    words = generator_words(rng)
    other = seeded_generator(4, "others")
    set_generator(other, words)
    for _ in range(2):
        assert other.random(3, np.float32).tobytes() == rng.random(3, np.float32).tobytes()
        assert other.integers(1 << 60) == rng.integers(1 << 60)


@pytest.mark.parametrize(("place", "word"), [(4, 2), (5, 1 << 32), (3, 2)])
def test_words_that_are_no_state_are_refused(place: int, word: int) -> None:
    rng = seeded_generator(3, "words")
    words = generator_words(rng)
    words[place] = word
    with pytest.raises(ValueError, match="no state"):
        set_generator(rng, words)
