"""Conditions as nested tuples, and what they are by the specification's tables, read off naively.

``("and", x, y)``, ``("=", x, y)``, ``("property", name)``, ``("literal", text, value)``, …: nothing
here is shared with the implementation. A value that Java throws for is `Thrown`.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction


class Thrown(Exception):
    """Java throws."""


class Int(int):
    """32 bits."""


class Long(int):
    """64 bits."""


def render(node):
    """The condition as text; parentheses wherever they could be needed."""
    kind, *parts = node
    match kind:
        case "property":
            return parts[0]
        case "literal":
            return parts[0]
        case "and" | "or" | "=" | "<>" | ">" | ">=" | "<" | "<=":
            return f"({render(parts[0])}) {kind.upper()} ({render(parts[1])})"
        case "not":
            return f"NOT ({render(parts[0])})"
        case "null" | "not null":
            return f"({render(parts[0])}) IS {kind.upper()}"
        case "between" | "not between":
            subject, low, high = map(render, parts)
            return f"({subject}) {kind.upper()} ({low}) AND ({high})"
        case "in" | "not in":
            name, texts = parts
            listed = ", ".join(quoted(text) for text in texts)
            return f"{name} {kind.upper()} ({listed})"
        case _:  # contains, not startswith, …
            name, text = parts
            return f"{name} {kind.upper()} {quoted(text)}"


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def value(node, row):
    """True, False, None, or a value; `Thrown` where Java throws."""
    kind, *parts = node
    match kind:
        case "property":
            return row.get(parts[0])
        case "literal":
            return parts[1]
        case "and" | "or":
            return logic(kind == "and", parts[0], parts[1], row)
        case "not":
            found = condition(parts[0], row)
            return None if found is None else not found
        case "null":
            return value(parts[0], row) is None
        case "not null":
            return value(parts[0], row) is not None
        case "=" | "<>":
            found = equal(value(parts[0], row), value(parts[1], row))
            return found if found is None or kind == "=" else not found
        case ">" | ">=" | "<" | "<=":
            return ordered(kind, value(parts[0], row), value(parts[1], row))
        case "between":
            subject, low, high = parts
            return logic(True, (">=", subject, low), ("<=", subject, high), row)
        case "not between":
            subject, low, high = parts
            return logic(False, ("<", subject, low), (">", subject, high), row)
        case "in" | "not in":
            found = row.get(parts[0])
            return None if found is None else (found in parts[1]) == (kind == "in")
    found, text = row.get(parts[0]), parts[1]
    if found is None or not text:
        return False
    tests = {
        "contains": text in found,
        "startswith": found[: len(text)] == text,
        "endswith": found[-len(text) :] == text,
    }
    return tests[kind.removeprefix("not ")] != kind.startswith("not ")


def condition(node, row):
    found = value(node, row)
    return False if isinstance(found, str) else found


def logic(is_and, left, right, row):
    decisive = not is_and
    first = condition(left, row)
    if first is decisive:
        return decisive
    second = condition(right, row)
    if second is decisive:
        return decisive
    return None if first is None or second is None else is_and


def equal(left, right):
    if left is None:
        return True if right is None else None
    if right is None:
        return False
    return order(left, right) == 0


def ordered(kind, left, right):
    if left is None or right is None:
        return None
    if isinstance(left, str) and isinstance(right, str):
        left, right = double(left), double(right)
    found = order(left, right)
    return {">": found > 0, ">=": found >= 0, "<": found < 0, "<=": found <= 0}[kind]


def order(left, right):
    if isinstance(left, bool) or isinstance(right, bool):
        if isinstance(left, str):
            left = left.upper() == "TRUE"
        if isinstance(right, str):
            raise Thrown
        if not (isinstance(left, bool) and isinstance(right, bool)):
            return -1
        return left - right
    if isinstance(left, str) and isinstance(right, str):
        return 0 if left == right else 1
    if isinstance(left, str):
        left = converted(left, right)
    if isinstance(right, str):
        right = converted(right, left)
    if isinstance(left, float) or isinstance(right, float):
        return java_order(float(left)) - java_order(float(right))
    return (left > right) - (left < right)


def java_order(number):
    """A whole number of its own for each double, in Java's order."""
    if math.isnan(number):
        return 1 << 4001
    if number == 0:
        return 0 if math.copysign(1, number) > 0 else -1
    scaled = 1 << 4000 if math.isinf(number) else int(Fraction(abs(number)) * (1 << 1074)) + 1
    return scaled if number > 0 else -scaled


def converted(text, number):
    if isinstance(number, float):
        return double(text)
    bits = 32 if isinstance(number, Int) else 64
    if not re.fullmatch(r"[+-]?[0-9]+", text) or not -(1 << bits - 1) <= int(text) < 1 << bits - 1:
        raise Thrown
    return type(number)(text)


def double(text):
    trimmed = text.strip(" ")
    if not re.fullmatch(
        r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)(e-?[0-9]+)?[dF]?)", trimmed
    ):
        raise Thrown
    return float(trimmed.rstrip("dF") if "Inf" not in trimmed else trimmed[:-5])
