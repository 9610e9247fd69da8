"""The verdict: the claims of a report's headline, in one record that every surface renders."""
