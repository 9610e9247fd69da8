"""The partitioning problem: units, orders, the graph of rules, held memory."""
