"""Blocks of networks, of random sizes: what models of mappings are trained on."""
