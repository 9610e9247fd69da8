"""What a placement puts on which resource: one table, a plain evaluator, and compiled forms."""
