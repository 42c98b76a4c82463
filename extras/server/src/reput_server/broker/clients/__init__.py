"""Clients of a broker: which groups they are in, what these want, and how far they are."""
