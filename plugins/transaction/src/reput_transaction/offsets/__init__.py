"""The progress of RocketMQ's check-back: its offsets, and op messages that it would still read.

This package keeps the file in which a broker looks for them. It must know neither half messages nor
how they are ended.
"""
