"""From a problem to a proven result: levels, bounds, planned memory, legalisation."""
