"""Mutations of a serialised model that know nothing of protobuf."""

from __future__ import annotations

import numpy as np

INTERESTING = (b"\x00", b"\xff", b"\x7f", b"\x80", b"\xff\xff\xff\xff\x07", b"\xff" * 9 + b"\x01")
"""Bytes at the edges of varints and lengths."""


def mutate_bytes(data: bytes, other: bytes, rng: np.random.Generator) -> bytes:
    """One to four edits of `data`; `other` is another model that pieces are taken from."""
    buffer = bytearray(data)
    for _ in range(int(rng.integers(1, 5))):
        at = int(rng.integers(0, len(buffer) + 1))
        length = int(min(2 ** rng.integers(0, 8), len(buffer) - at))
        match int(rng.integers(0, 7)):
            case 0 if at < len(buffer):
                buffer[at] ^= 1 << int(rng.integers(0, 8))
            case 1:
                buffer[at : at + length] = rng.bytes(length)
            case 2:
                del buffer[at : at + length]
            case 3:
                buffer[at:at] = buffer[at : at + length]
            case 4:
                start = int(rng.integers(0, len(other) + 1))
                buffer[at:at] = other[start : start + length]
            case 5:
                piece = INTERESTING[int(rng.integers(0, len(INTERESTING)))]
                buffer[at : at + len(piece)] = piece
            case _ if rng.random() < 0.1:
                del buffer[at:]
            case _:
                pass
    return bytes(buffer)
