"""The index file of the page: ten slots, five items, and the chain of one key."""

from __future__ import annotations

from paper import Drawing

SLOT_COUNT = 10
# Text, hash and previous item, as in the table of the page; a test compares them with the format.
ITEMS = (
    ("TopicTest#k1", 2_746_024, 0),
    ("TopicTest#k2", 2_746_025, 0),
    ("TopicTest#7F00…0000", 1_588_605_929, 0),
    ("polygenelubricants", 0, 0),
    ("TopicTest#k1", 2_746_024, 1),
)
_HEADER = (
    ("begin time", 8),
    ("end time", 8),
    ("begin offset", 8),
    ("end offset", 8),
    ("used slots", 4),
    ("next item", 4),
)


def draw() -> Drawing:
    """Header above, slots on the left, items on the right, and where each slot leads."""
    page = Drawing(
        "index-file",
        820,
        548,
        "An index file with ten slots and five items",
        "A header of 40 bytes; ten slots of 4 bytes, of which 0, 4, 5 and 9 hold the number of "
        "their newest item: 4, 5, 2 and 3; items of 20 bytes. Item 5 leads to item 1, which has "
        "the same key.",
    )
    x = 20.0
    page.text(20, 24, "header, 40 bytes", "strong", 14, "start")
    for name, size in _HEADER:
        width = size * 19.5
        page.labelled(x, 34, width, 46, (name, f"{size} bytes"), "mark", 13, "")
        x += width

    newest: dict[int, int] = {}
    for number, (_, value, _) in enumerate(ITEMS, 1):
        newest[value % SLOT_COUNT] = number
    page.text(20, 116, "slots, 4 bytes each", "strong", 14, "start")
    for slot in range(SLOT_COUNT):
        y = 126 + slot * 38
        page.text(34, y + 22, str(slot), "soft mono", 12, "end")
        page.box(42, y, 92, 32, "log" if slot in newest else "plain", 3)
        page.text(
            88, y + 21, str(newest.get(slot, 0)), "mono" if slot in newest else "soft mono", 14
        )

    page.text(330, 116, "items, 20 bytes each", "strong", 14, "start")
    for left, label in ((330, "key"), (536, "hash"), (652, "previous")):
        page.text(left + 8, 138, label, "soft", 12, "start")
    tops = {number: 146 + (number - 1) * 66 for number in range(1, len(ITEMS) + 1)}
    for number, (text, value, previous) in enumerate(ITEMS, 1):
        y = tops[number]
        page.text(322, y + 30, str(number), "soft mono", 12, "end")
        page.box(330, y, 400, 48, "plugin", 4)
        page.text(338, y + 29, text, "mono", 13, "start")
        page.text(544, y + 29, str(value), "mono", 13, "start")
        page.text(660, y + 29, str(previous), "mono", 13, "start")
    for slot, number in newest.items():
        y = 126 + slot * 38 + 16
        page.way([(134, y), (300, tops[number] + 24)], "log")
    page.curve(
        f"M 730 {tops[5] + 24} C 800 {tops[5]}, 800 {tops[1] + 60}, 734 {tops[1] + 24}", "mark"
    )
    page.text(772, 300, "older", "soft", 12, "end")
    page.text(772, 316, "item", "soft", 12, "end")
    page.text(
        410, 534, "slot = hash modulo the number of slots; a slot holds its newest item", "soft", 13
    )
    return page
