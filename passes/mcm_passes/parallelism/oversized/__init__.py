"""Operators that no single device holds, divided until they fit."""
