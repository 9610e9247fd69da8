"""How kernels of the player are compiled."""

from __future__ import annotations

from typing import Any, Final

import numba

_njit: Any = numba.njit

borrowing: Final[Any] = _njit(cache=True, nogil=True, _nrt=False, forceinline=True)
"""Compiles a function that only works on arrays that its caller keeps, and makes none.

Numba counts references to each array of each record that is passed along, which is most of the time
of a function that does little and knows many arrays: without, a cycle is played in a fifteenth of
the time.
"""
