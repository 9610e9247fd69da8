"""What the scripts on Auto-MAP share."""
