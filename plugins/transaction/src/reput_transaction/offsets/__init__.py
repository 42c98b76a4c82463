"""How far RocketMQ's check-back has come: its offsets, and op messages that it would still read.

This room keeps the file where a broker looks for them. It must not know half messages, nor who
ends them.
"""
