"""`PluginFiles`: the files that the plugin reads and writes, the broker's and one of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

import attrs

from reput_consumer.metadata import consumeroffsets as offsets
from reput_consumer.metadata import deletedtopics as deleted
from reput_consumer.metadata import requestmodes, startjournal
from reput_consumer.metadata import subscriptiongroups as groups
from reput_consumer.metadata import topicsettings as topics
from reput_consumer.metadata.consumeroffsets import ConsumerOffsets
from reput_consumer.metadata.deletedtopics import DeletedTopics
from reput_consumer.metadata.requestmodes import RequestModes
from reput_consumer.metadata.startjournal import StartJournal
from reput_consumer.metadata.subscriptiongroups import SubscriptionGroups
from reput_consumer.metadata.topicsettings import Topics
from reput_tools.brokerfiles import BrokerDocument

if TYPE_CHECKING:
    from reput.plugin import StoreContext

_DIRECTORY: Final = "config"
_OWN_DIRECTORY: Final = "reput", "consumer"


@attrs.frozen(eq=False)
class PluginFiles:
    """One object for each file."""

    offsets: ConsumerOffsets
    groups: SubscriptionGroups
    topics: Topics
    deleted: DeletedTopics
    modes: RequestModes

    @classmethod
    def of(cls, context: StoreContext) -> Self:
        """Return the files of a store; `load` reads them."""

        def document(name: str, *home: str) -> BrokerDocument:
            directory = context.directory(*(home or (_DIRECTORY,)))
            return BrokerDocument(
                directory, name, context.disk, context.clock, context.note_problem
            )

        light = document(offsets.LIGHT_FILE_NAME)
        known = Topics(
            document(topics.FILE_NAME),
            takes_copies=not context.replica,
            default_queue_count=context.default_queue_count,
            changed=context.renew_interest,
        )
        begun = StartJournal(
            context.directory(*_OWN_DIRECTORY, startjournal.FILE_NAME),
            context.disk,
            context.writable,
        )
        return cls(
            ConsumerOffsets(document(offsets.FILE_NAME), light, begun, known.cover),
            SubscriptionGroups(document(groups.FILE_NAME), known),
            known,
            DeletedTopics(
                document(deleted.FILE_NAME, *_OWN_DIRECTORY), hide_light=context.hide_light_queues
            ),
            RequestModes(document(requestmodes.FILE_NAME)),
        )

    def load(self) -> None:
        """Read all of them."""
        self.offsets.load()
        self.groups.load()
        self.topics.load()
        self.deleted.load()
        self.modes.load()

    def finish_replacing(self, *, flush: bool) -> None:
        """Finish or undo changes that a crash has interrupted; see `Disk.finish_replacing`."""
        for each in (self.offsets, self.groups, self.topics, self.deleted, self.modes):
            each.document.finish_replacing(flush=flush)
        self.offsets.light.finish_replacing(flush=flush)
