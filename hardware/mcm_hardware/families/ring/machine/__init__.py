"""The ring as a machine: its numbers, routes and simulator."""
