"""Findings of a compile, as JSON, as Markdown and for the terminal."""
