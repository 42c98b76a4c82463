"""`StoreServices`: the services of the consumers of one store.

A store that is only read has none of it until its first use: these modules import `asyncio`, and
take longer to import than the rest of the plugin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from reput_consumer.backend.embeddedbackend import EmbeddedBackend
    from reput_consumer.localmembers import LocalMembers
    from reput_consumer.memberlist.memberlistfile import MemberListFile
    from reput_consumer.memberlist.snapshot import GroupMember
    from reput_consumer.pop.popservice import PopService

MEMBER_DEFAULTS: Final = {"fetch_count": 256, "fetch_bytes": 1 << 20}
"""A fetch of 32 messages, RocketMQ's default, takes a third longer for each message, as each
read has to find its way through the store; the bytes let messages of a few KiB come as many."""


@attrs.frozen(eq=False)
class StoreServices:
    """What serves the consumers of one store."""

    port: EmbeddedBackend
    popper: PopService
    members: LocalMembers
    roster_file: MemberListFile

    def members_now(self) -> tuple[GroupMember, ...]:
        """Return the members of all groups in this process, by group and client id."""
        from reput_consumer.memberlist.snapshot import members_of

        shown = self.port.steady.at_source
        return members_of(self.port.registry, self.members.queues_held(), shown)
