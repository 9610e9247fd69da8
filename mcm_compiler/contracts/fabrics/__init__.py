"""The contracts of fabrics: chips that are grids of compute and memory units around switches.

`fabric` tells of the grid, `problem` of what is laid out on it, `legality` of which layouts are
allowed, `measurement` of what a layout does and how fast, `models` of what guesses that, `mappers`
of what searches, `target` of targets whose chips are fabrics. A *mapping* gives each unit a site
and each stream a route; it is the place-and-route of one chip, after a model has been partitioned.
"""
