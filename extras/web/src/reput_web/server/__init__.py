"""The pages over HTTP: requests, limits, security, templates."""
