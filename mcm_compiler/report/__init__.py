"""What a compile found out, as JSON, as Markdown and for the terminal."""
