"""The frame allows its own script and nothing of others."""

from __future__ import annotations

import base64
import hashlib
import re

from mcm_compiler.viewing.page_server import frame_bytes, frame_policy


def test_script_and_style_of_the_frame_are_those_that_its_policy_names() -> None:
    text = frame_bytes().decode()
    policy = frame_policy()
    for element in ("script", "style"):
        (source,) = re.findall(rf"<{element}>(.*?)</{element}>", text, flags=re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
        assert f"{element}-src 'sha256-{digest}';" in policy
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'; ")
    assert policy.endswith("frame-ancestors 'none'")
