"""Two pieces of JSON, leaf by leaf: what is stored, and what follows from the rest of a folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from mcm_compiler.diagnostics import quote


def leaf_differences(place: str, theirs: Any, ours: Any) -> Iterator[str]:
    """The places where two pieces of JSON differ.

    Args:
        place: where both are.
        theirs: what is stored.
        ours: what follows.
    """
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        left, right = cast("Mapping[str, Any]", ours), cast("Mapping[str, Any]", theirs)
        for key in [*left, *(key for key in right if key not in left)]:
            if key not in right or key not in left:
                yield f"{place}.{key} is {'there' if key in right else 'missing'}"
            else:
                yield from leaf_differences(f"{place}.{key}", right[key], left[key])
        return
    if isinstance(ours, (list, tuple)) and isinstance(theirs, list):
        rows, stored = cast("Sequence[Any]", ours), cast("Sequence[Any]", theirs)
        if len(rows) != len(stored):
            yield f"{place} has {len(stored)} entries, the folder gives {len(rows)}"
        for index, (left, right) in enumerate(zip(rows, stored, strict=False)):
            yield from leaf_differences(f"{place}[{index}]", right, left)
        return
    if ours != theirs or isinstance(ours, bool) != isinstance(theirs, bool):
        yield f"{place} is {shown(theirs)}, the folder gives {shown(ours)}"


def shown(value: Any) -> str:
    """A leaf for a message."""
    return quote(repr(value)[:80]) if isinstance(value, str) else repr(value)[:80]
