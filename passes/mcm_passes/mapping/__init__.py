"""Where units go: what a placement loads, and how placements are searched."""
