"""Files that are written through a memory map, and how they are made ahead of need.

This package knows offsets and sizes. It must not know records.
"""
