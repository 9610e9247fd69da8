"""A graph network that guesses what a judge of fabrics would measure, and how it learns.

`layout` says what it sees and which weights it has, `graphs` holds what it sees, `checkpoint` and
`data_set` are what stays on disk. `network`, `losses` and `training` need the extra `learn`.
"""
