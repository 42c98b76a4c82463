"""Shows a report: in a terminal, and as one HTML page."""
