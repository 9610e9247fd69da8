"""From a subgraph to units and streams: stages of ops, shares of units, memory between them."""
