"""Commands of the doctor: they parse, call and print, and do not know how the work is done."""

from __future__ import annotations
