"""Contracts between the parts of the compiler: records and protocols, without machinery."""
