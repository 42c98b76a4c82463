"""Reading, finding, choosing and showing messages, shared by several commands.

The names below are public for commands of other distributions, which find and show messages by the
same functions. Each name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.lazyexports import lazy_exports

if TYPE_CHECKING:
    from reput_tools.cli.messages.bodysearch import BodySearch as BodySearch
    from reput_tools.cli.messages.filteroptions import FilterOptions as FilterOptions
    from reput_tools.cli.messages.filteroptions import conditions_of as conditions_of
    from reput_tools.cli.messages.filteroptions import with_filter as with_filter
    from reput_tools.cli.messages.messagerender import message_document as message_document
    from reput_tools.cli.messages.messagesearch import Wanted as Wanted
    from reput_tools.cli.messages.timerange import time_runs as time_runs
    from reput_tools.cli.messages.topiccensus import CountedQueue as CountedQueue
    from reput_tools.cli.messages.topiccensus import queues_counted as queues_counted
    from reput_tools.cli.messages.topicfacts import TopicFacts as TopicFacts
    from reput_tools.cli.messages.topicfacts import topics_of as topics_of
else:
    __getattr__, __dir__ = lazy_exports(__name__)
