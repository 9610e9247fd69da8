"""The contracts of fabrics: chips that are grids of compute and memory units around switches.

`fabric` describes the grid, `problem` the units to place on it, and `legality` the rules of
mappings. `measurement` defines their execution, `models` predict its speed, and `mappers` search.
`target` is for targets whose chips are fabrics. A *mapping* gives each unit a site and each stream
a route: it is the place-and-route of one chip, after a model has been partitioned.

A fabric is one device of the package's machine, and no machine itself: its streams share links flit
by flit, with credits and registers, and those to several destinations are trees.
"""
