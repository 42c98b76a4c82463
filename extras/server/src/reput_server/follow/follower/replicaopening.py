"""Opens a store that follows a broker, and follows it for the time of a ``with`` block."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from reput_server.follow.config import FollowConfig
from reput_server.follow.follower.follower import Follower
from reput_server.follow.follower.source import AnySource, Source
from reput_server.follow.follower.startoffset import Own, check_broker

if TYPE_CHECKING:
    from reput import Store
    from reput.plugin import Plugin

_LOG: str = "commitlog"


def open_replica(
    path: str | os.PathLike[str],
    source: AnySource | str,
    follow: FollowConfig | None = None,
    *,
    plugins: Iterable[str | Plugin] | None = None,
    config: Mapping[str, Any] | None = None,
    **options: Any,
) -> Store:
    """Open the store at ``path`` to follow a broker, with files of the broker's size.

    The store is created if it does not exist. It takes no puts until it is promoted
    (`reput.Store.promote`).

    Args:
        path: the store's directory.
        source: the broker, or its ``HOST:PORT``.
        follow: how it is going to be followed.
        plugins: as for `reput.open`.
        config: as for `reput.open`; the size of the log's files is the broker's.
        options: others of `reput.open`.

    Raises:
        BrokerError: the broker cannot be reached.
        FollowEndedError: it cannot be followed, or not by this store.
        NotReplicaError: the store has messages of its own.
        ReputError: the store cannot be opened.
    """
    import reput

    follow = follow or FollowConfig()
    source = Source.at(source) if isinstance(source, str) else source
    with contextlib.closing(source.reach(follow.ask_timeout, time.monotonic, None)) as master:
        facts = master.facts()
    file_size = _file_size(path)
    own = Own(
        min_offset=0,
        end_offset=0,
        flushed_offset=0,
        file_size=facts.file_size if file_size is None else file_size,
        is_empty=file_size is None,
        master=_master(path),
    )
    check_broker(facts, own, follow)
    sections = {name: dict(section) for name, section in (config or {}).items()}
    if file_size is None:
        sections[_LOG] = {**sections.get(_LOG, {}), "file_size": facts.file_size}
    return reput.open(path, plugins=plugins, config=sections, master=facts.name, **options)


def _file_size(path: str | os.PathLike[str]) -> int | None:
    """Return the size of the files of the log at ``path``; None if it has none."""
    from reput.files import is_file_name

    try:
        with os.scandir(os.path.join(path, _LOG)) as found:
            return next((each.stat().st_size for each in found if is_file_name(each.name)), None)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _master(path: str | os.PathLike[str]) -> str | None:
    """Return the name of the master that a store has recorded; None if it has none."""
    from reput.files import Disk
    from reput.log import StateFile
    from reput.storefiles import Manifest

    manifest = Manifest.of(StateFile.of(os.fspath(path), Disk().at(os.path.abspath(path))))
    return None if manifest is None else manifest.master


@contextlib.contextmanager
def following(
    store: Store, source: AnySource | str, config: FollowConfig | None = None
) -> Iterator[Follower]:
    """Follow a broker from threads of its own, for the time of a ``with`` block.

    Args:
        store: a replica that is open for writing, as `open_replica` returns it.
        source: the broker, or its ``HOST:PORT``.
        config: how it is followed.

    Raises:
        AddressError: ``source`` is not an address.
    """
    found = Source.at(source) if isinstance(source, str) else source
    follower = Follower(store, found, config)
    follower.start()
    try:
        yield follower
    finally:
        follower.stop()
