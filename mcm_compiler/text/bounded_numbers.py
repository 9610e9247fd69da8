"""Ranges of numbers in records that are read from untrusted files.

They are plain `int` and `float` to everyone else; nothing is checked where a record is made.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

MAX_WHOLE = 2**53
"""Whole numbers beyond it are not the same in all readers of JSON."""

MAX_INDEX = 2**31 - 1

Whole = Annotated[int, Meta(ge=-MAX_WHOLE, le=MAX_WHOLE)]
"""A whole number that all readers of JSON take for the same."""

Size = Annotated[int, Meta(ge=0, le=MAX_WHOLE)]
"""Bytes, or the extent of a dimension."""

Extent = Annotated[int, Meta(ge=1, le=MAX_WHOLE)]
"""The extent of a dimension that is not empty."""

Count = Annotated[int, Meta(ge=1, le=MAX_INDEX)]
"""How many there are of what there is at least one of."""

Index = Annotated[int, Meta(ge=0, le=MAX_INDEX)]
"""A position from 0, such as a chip's."""

Place = Annotated[int, Meta(ge=-1, le=MAX_INDEX)]
"""A chip, or -1 for the host; likewise an index, or -1 for none."""

Endpoint = Annotated[int, Meta(ge=-2, le=MAX_INDEX)]
"""A chip, -1 for the host, or -2 for off-package memory."""

Seed = Annotated[int, Meta(ge=0, le=2**63 - 1)]
"""A seed of random numbers."""

Number = Annotated[float, Meta(ge=-1e100, le=1e100)]
"""A finite number with room to calculate with it."""

Amount = Annotated[float, Meta(ge=0, le=1e100)]
"""A finite number that is not negative, such as a time or a cost."""
