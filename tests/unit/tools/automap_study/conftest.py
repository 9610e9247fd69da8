"""Runs of models of the study."""

from __future__ import annotations

from tests.unit.models.zoo.conftest import run

__all__ = ["run"]
