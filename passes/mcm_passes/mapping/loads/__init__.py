"""What a placement puts on which resource: one table, and compiled forms of it."""
