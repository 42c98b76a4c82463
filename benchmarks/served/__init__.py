"""A server beside a real broker: the same load on both, in turn.

Reading order: `benchmarks.served.servers` (who serves), `benchmarks.served.load` (the stock
client's load, made by `java/`), `benchmarks.served.own` (our client's), `benchmarks.served.turns`.
"""
