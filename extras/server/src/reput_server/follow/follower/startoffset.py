"""Whether a broker may be followed, and from which offset on. No byte is read or written here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import attrs

from reput_server.follow.follower.states import FollowEndedError, State

if TYPE_CHECKING:
    from reput_server.follow.brokerclient.brokerfacts import BrokerFacts, LogRange
    from reput_server.follow.config import FollowConfig
    from reput_server.follow.follower.replicafeed import ReplicaFeed

_ANEW = "begin with a new directory, or with an empty one"


@attrs.frozen
class Own:
    """The log of the store that is fed."""

    min_offset: int
    end_offset: int
    """Physical offset of the next byte that is wanted."""
    flushed_offset: int
    """Physical offset below which the log is on disk."""
    file_size: int
    is_empty: bool
    master: str | None = None
    """The name that the store has of its master."""

    @classmethod
    def of(cls, feed: ReplicaFeed) -> Self:
        """Return the log of the store that ``feed`` feeds."""
        store, log = feed.store, feed.store.log
        return cls(
            min_offset=log.min_physical_offset,
            end_offset=feed.fed_offset,
            flushed_offset=store.flushed_offset,
            file_size=log.file_size,
            is_empty=not len(log.file_offsets),
            master=store.master,
        )


def check_broker(facts: BrokerFacts, own: Own, config: FollowConfig) -> None:
    """Check that a broker may be followed.

    Raises:
        FollowEndedError: it may not.
    """
    where = facts.where
    if facts.is_dledger:
        reason, advice = "keeps its log by DLedger", "follow a broker without enableDLegerCommitLog"
        raise _refused(f"{where} {reason}", f"its HA port is closed; {advice}")
    if facts.is_controlled:
        reason = f"{where} is in controller mode, whose HA port has frames of its own"
        raise _refused(reason, "follow a broker without enableControllerMode")
    if facts.role == "SLAVE" or facts.broker_id != 0:
        raise _refused(f"{where} is a slave", "follow its master")
    if facts.ha_port is None and config.ha_address is None:
        raise _refused(
            f"{where} names no HA port, from which its log could be copied",
            "name that port with --ha HOST:PORT, or follow the broker's directory with "
            "--directory; `reput serve` opens the port with --replicas HOST:PORT",
        )
    is_old = facts.in_sync_replicas is None
    if facts.waits_for_slaves and is_old and not (config.acknowledge or config.allow_stalls):
        raise _refused(
            f"{where} is a SYNC_MASTER of 4.x: with an observer and no slave each send would wait "
            "3 s or more, where it fails at once today",
            "--acknowledge has the follower count as a slave; --allow-stalls accepts the waits",
        )
    if own.master is not None and own.master != facts.name:
        raise _refused(
            f"the store follows {own.master}, and this is {facts.name}",
            f"name that broker, or {_ANEW}",
        )
    if own.file_size != facts.file_size:
        raise FollowEndedError(
            State.FILE_SIZE_CHANGED,
            f"files of {where} have {facts.file_size} bytes, those of the store {own.file_size}",
            f"{_ANEW}; the old one can be read as before",
        )


def check_range(own: Own, master: LogRange) -> None:
    """Check that the master still has what the store needs, and already has what it has.

    Raises:
        FollowEndedError: it has not.
    """
    if own.is_empty:
        return
    if own.end_offset < master.min_offset:
        missing = master.min_offset - own.end_offset
        raise FollowEndedError(
            State.FELL_BEHIND,
            f"the store ends at {own.end_offset}, and the master's log begins at "
            f"{master.min_offset}: {missing:,} bytes between them are gone",
            f"{_ANEW}, or keep this one as it is and open it without following",
        )
    if own.end_offset > master.max_offset:
        more = own.end_offset - master.max_offset
        raise FollowEndedError(
            State.MASTER_LOST,
            f"the store ends at {own.end_offset}, and the master's log at {master.max_offset}: the "
            f"master has lost {more:,} bytes",
            f"compare both before either is removed: `reput cat` shows what only the store has; "
            f"then {_ANEW}, or `reput promote` this one in the master's place",
        )


def first_report(own: Own, master: LogRange, config: FollowConfig) -> int:
    """Return the offset to request: where an empty store begins, or a part of what it has.

    Never 0, by which a master understands "the start of the latest file": byte 0 of a log is the
    high byte of its first record's size, and 0.

    Raises:
        FollowEndedError: the master does not have the offset where an empty store is to begin.
    """
    if not own.is_empty:
        # A report acknowledges what is below it, so a replica's is never beyond what is on disk.
        end = min(own.end_offset, own.flushed_offset) if config.acknowledge else own.end_offset
        return max(end - config.overlap, own.min_offset, master.min_offset, 1)
    size = own.file_size
    if config.begin == "oldest":
        wanted = master.min_offset
    elif config.begin == "latest":
        wanted = max(master.max_offset - master.max_offset % size, master.min_offset)
    else:
        wanted = config.begin - config.begin % size
        if not master.min_offset <= wanted <= master.max_offset:
            raise _refused(
                f"the master has no offset {config.begin}: its log begins at {master.min_offset} "
                f"and ends at {master.max_offset}",
                "name an offset between them, oldest or latest",
            )
    return max(wanted, 1)


def _refused(reason: str, advice: str) -> FollowEndedError:
    return FollowEndedError(State.REFUSED, reason, advice)
