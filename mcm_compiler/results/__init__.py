"""What a compile found out, and what it has not proven."""
