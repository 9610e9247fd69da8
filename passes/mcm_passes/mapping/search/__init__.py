"""What every search shares: candidates, budgets, strategies by name."""
