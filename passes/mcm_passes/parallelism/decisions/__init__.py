"""The choice of one division per linkage group: problem, objective, searches."""
