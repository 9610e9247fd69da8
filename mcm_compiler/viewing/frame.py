"""The frame around a served page: it loads the page again when there is another one.

The page's own policy allows no script but its own and no requests, and stays as it is. The script
that asks the server stands in a document around it, with a policy of its own.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from mcm_compiler.page.html import source_hash

SCRIPT, STYLE, MARKUP = "frame.js", "frame.css", "frame.html"
"""Files of the folder `assets`; the last has places for the first two."""


@cache
def frame_bytes() -> bytes:
    """The document."""
    text = _asset(MARKUP)
    for place, name in (("{style}", STYLE), ("{script}", SCRIPT)):
        text = text.replace(place, _asset(name))
    return text.encode()


def frame_policy() -> str:
    """What the document may do: run this script, ask this server, show its page, and no more."""
    return (
        f"default-src 'none'; script-src '{source_hash(_asset(SCRIPT))}'; "
        f"style-src '{source_hash(_asset(STYLE))}'; connect-src 'self'; frame-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


@cache
def _asset(name: str) -> str:
    return (files("mcm_compiler.viewing") / "assets" / name).read_text(encoding="utf-8")
