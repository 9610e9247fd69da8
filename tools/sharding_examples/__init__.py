"""Small examples of every operator that has a sharding rule, for the tests and the table."""
