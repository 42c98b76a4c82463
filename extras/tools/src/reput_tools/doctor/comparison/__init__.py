"""Comparisons: where two stores differ, in messages, queues, offsets, settings and derived files.

`stores.compare_stores` is the entry. Messages are matched by topic, queue and queue offset while
both logs are read once, in batches and in bounded memory; where both logs have the same bytes at
the same places, only one of them is decoded.
"""
