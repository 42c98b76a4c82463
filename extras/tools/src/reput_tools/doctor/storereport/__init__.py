"""Reports: what a store holds, by topic, queue and hour, and what in it waits, hangs or is damaged.

`making.make_report` reads the log once, on all cores, and the small files beside it; its result is
plain values (`values`), which `printing` shows in a terminal and `page` as one HTML page.
"""
