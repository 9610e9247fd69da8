"""stub"""
from __future__ import annotations
from collections.abc import Mapping
from typing import Any
def page(data: Mapping[str, Any]) -> str:
    """stub"""
    return ""
