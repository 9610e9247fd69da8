"""What the parts promise each other: records and protocols, without machinery."""
