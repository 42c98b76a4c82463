"""Filters that consumer groups have registered: their file, their bits, reads that use them.

This room keeps what each group wants of a topic, and finds it again in bit maps. It must not know
the grammar of conditions, nor the plugin's hooks.
"""
