"""Saves a broker's topics, groups and offsets in the store's ``config``, as a slave does.

Tools that look at a store then know them: `reput groups` shows how far each group is.

Source: RocketMQ ``SlaveSynchronize``. Different on purpose: the table of offsets is the master's,
and not merged with older ones.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from reput.files import Disk, system_clock
from reput_client.remoting import RequestCode
from reput_server.follow.errors import BrokerError
from reput_tools.brokerfiles import BrokerDocument, object_of

if TYPE_CHECKING:
    from reput import Store
    from reput_server.follow.follower.source import Master

_FILES: Final = (
    # Offsets before topics and groups: what they are about is known then.
    (RequestCode.GET_ALL_CONSUMER_OFFSET, "consumerOffset.json", "offsetTable"),
    (RequestCode.GET_ALL_TOPIC_CONFIG, "topics.json", "topicConfigTable"),
    (
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        "subscriptionGroup.json",
        "subscriptionGroupTable",
    ),
    (RequestCode.GET_ALL_DELAY_OFFSET, "delayOffset.json", "offsetTable"),
)


def save_metadata(master: Master, store: Store) -> None:
    """Request the metadata of a master, and replace the files of ``store`` that changed.

    How far delay levels are is saved, too, unless the plugin ``schedule`` keeps that file.

    Args:
        master: the master.
        store: the replica.

    Raises:
        BrokerError: it cannot be reached, or gives no valid answer.
        OSError: a file cannot be written.
    """
    directory = os.path.join(store.root, "config")
    keeps_delays = "schedule" in store.plugin_objects
    for code, name, table in _FILES:
        if code == RequestCode.GET_ALL_DELAY_OFFSET and keeps_delays:
            continue
        try:
            body = master.document(code, name)
        except BrokerError:
            if code != RequestCode.GET_ALL_DELAY_OFFSET:
                raise
            continue  # it refuses as long as it has delayed no message
        if body is None:
            continue
        try:
            document = object_of(body) if body else {}
        except ValueError as error:
            raise BrokerError(master.name, f"its {name} cannot be read: {error}") from error
        if not isinstance(document.get(table), dict):
            raise BrokerError(master.name, f"its {name} has no {table}")
        BrokerDocument(directory, name, Disk(), system_clock).replace(document)
