"""Ends of transactions: what producers say became of them, and asking those who have not said."""
