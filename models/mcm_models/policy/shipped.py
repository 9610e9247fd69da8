"""The policy that comes with the compiler."""

from __future__ import annotations

from pathlib import Path

SHIPPED_POLICY = Path(__file__).resolve().parent.parent / "checkpoints" / "policy.safetensors"
"""Its checkpoint; the card inside says how it was trained."""
