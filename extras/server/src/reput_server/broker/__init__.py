"""The broker: stores what producers send, and hands it to consumers."""
