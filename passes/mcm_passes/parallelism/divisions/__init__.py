"""The search for what is divided: candidates ranked by prices, and the best of them built."""
