"""Text that people and files hold: specifications, units, bounded TOML and JSON, safe printing."""
