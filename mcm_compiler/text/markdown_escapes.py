"""Foreign text in Markdown: nothing of it is acted on."""

from __future__ import annotations

import re

_ACTIVE = re.compile(r"([\\`*_{}\[\]<>|#&~!])")


def escaped(text: str) -> str:
    """`text` with everything that Markdown or HTML would act on escaped."""
    return _ACTIVE.sub(r"\\\1", text)
