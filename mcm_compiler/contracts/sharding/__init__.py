"""How operators divide over devices: rules, notation, specifications and whole plans."""
