"""Verbs that list what there is: components, targets, models of the zoo, versions."""
