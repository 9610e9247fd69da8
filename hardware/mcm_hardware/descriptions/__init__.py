"""Descriptions of packages in TOML: keys, reading, suggestions."""
