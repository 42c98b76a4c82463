"""Ends of transactions: the outcomes from producers, and questions to silent producers."""
