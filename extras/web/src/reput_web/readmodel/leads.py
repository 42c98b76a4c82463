"""Which derived files lead to a message: queue units, index items, notes of the timer wheel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from reput.errors import CorruptFileError, NoReaderError, PluginError

if TYPE_CHECKING:
    from reput import MessageView, Store
    from reput_web.readmodel.openedstore import OpenedStore

_WHEEL_TOPIC: Final = "rmq_sys_wheel_timer"


@attrs.frozen(kw_only=True)
class Lead:
    """A derived file that leads to the message."""

    kind: str
    """``queue``, ``key``, ``compacted`` or ``timer``."""
    name: str
    leads_here: bool


def key_leads(store: Store, view: MessageView) -> list[Lead]:
    """Return whether items of the key index lead to a message."""
    words = [view.unique_key, *view.keys] if view.unique_key else list(view.keys)
    found: list[Lead] = []
    time = view.store_timestamp
    for word in dict.fromkeys(words[:20]):
        try:
            answer = store.query(view.topic, word, time, time, 1_000)
        except (NoReaderError, PluginError, CorruptFileError):
            return found
        leads = any(each.physical_offset == view.physical_offset for each in answer)
        found.append(Lead(kind="key", name=word, leads_here=leads))
    return found


def timer_leads(opened: OpenedStore, view: MessageView) -> list[Lead]:
    """Return whether the timer wheel has a note of a parked message; nothing for other messages."""
    if view.topic != _WHEEL_TOPIC:
        return []
    try:
        from reput_schedule.plugin import SchedulePlugin
    except ModuleNotFoundError:
        return []
    try:
        plugin = opened.store.plugin(SchedulePlugin)
    except PluginError:
        plugin = opened.beside("consumequeue", "schedule").store.plugin(SchedulePlugin)
    due = plugin.noted_time(view)
    name = view.topic if due is None else f"{due}"
    return [Lead(kind="timer", name=name, leads_here=due is not None)]
