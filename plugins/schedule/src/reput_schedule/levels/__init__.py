"""The engine of the delay levels: parked by level, delivered in their order, found again."""
