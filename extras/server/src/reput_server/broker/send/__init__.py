"""Storing what producers send: checks, and puts of many sends at once."""
