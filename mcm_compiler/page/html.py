"""A page as one HTML file that needs nothing else: no network, no other file.

The file holds its own script and style, and allows nothing but these two by their hashes. Every
text of a page is escaped where it is written; what the script draws comes as JSON in a block that
no browser runs, in which nothing can end the block.
"""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcm_compiler.page.contents import Page
from mcm_compiler.text.units import printable

if TYPE_CHECKING:
    from jinja2 import Template

SCRIPT, STYLE, TEMPLATE = "page.js", "page.css", "page.html.jinja"
"""Files of the folder `assets`; `tools/report_page` builds the first two."""

_HEAD = (
    b'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    b'<meta http-equiv="Content-Security-Policy" content="default-src &#39;none&#39;; '
    b"script-src &#39;sha256-"
)
"""What all pages begin with, up to what differs from version to version."""


def is_page(path: Path) -> bool:
    """Whether a file is such a page, as far as its beginning tells.

    Raises:
        OSError: if it cannot be read.
    """
    with path.open("rb") as stream:
        return stream.read(len(_HEAD)) == _HEAD


def page_bytes(page: Page) -> bytes:
    """The file. Equal pages give equal bytes."""
    script, style = asset(SCRIPT), asset(STYLE)
    views = {s.key: {"kind": s.view.kind, "data": s.view.data} for s in page.sections if s.view}
    text = _template().render(
        page=page,
        style=_markup(style),
        script=_markup(script),
        data=_markup(json_block({"views": views})),
        policy=content_security_policy(script, style),
    )
    return text.encode("utf-8", "backslashreplace")


def content_security_policy(script: str, style: str) -> str:
    """What the page may do: run this script, use this style, and nothing else."""
    return (
        f"default-src 'none'; script-src '{source_hash(script)}'; "
        f"style-src '{source_hash(style)}'; base-uri 'none'; form-action 'none'"
    )


def json_block(data: Any) -> str:
    """JSON for a `script` element of a type that is not run: nothing in it can end the element."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def asset(name: str) -> str:
    """A file of the folder `assets`."""
    return (files("mcm_compiler.page") / "assets" / name).read_text(encoding="utf-8")


@cache
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["shown"] = printable
    environment.filters["drawn"] = _markup
    return environment.from_string(asset(TEMPLATE))


def _markup(text: str) -> Any:
    """Text of our own that goes into the page as it is."""
    from markupsafe import Markup

    return Markup(text)  # noqa: S704 - the page's own files, and JSON without markup


def source_hash(text: str) -> str:
    """A script or style as a content security policy names it."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"
