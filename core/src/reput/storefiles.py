"""The small files of a store beside its log, for tools that do not open the store.

Files about the end of the log are in `reput.log`. `READING` and `WAITING` are, beside `Phase`,
states of a `reput.PluginState`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.lazyexports import lazy_exports

if TYPE_CHECKING:
    from reput.dispatch.deadletters import DeadLetter as DeadLetter
    from reput.dispatch.deadletters import DeadLetterFile as DeadLetterFile
    from reput.dispatch.manifest import MANIFEST as MANIFEST
    from reput.dispatch.manifest import Manifest as Manifest
    from reput.dispatch.runtime.pluginstate import READING as READING
    from reput.dispatch.runtime.pluginstate import WAITING as WAITING
    from reput.dispatch.runtime.pluginstate import Phase as Phase
    from reput.dispatch.storedpluginstates import RESUME as RESUME
    from reput.dispatch.storedpluginstates import SUSPEND as SUSPEND
    from reput.dispatch.storedpluginstates import StoredPluginState as StoredPluginState
    from reput.dispatch.storedpluginstates import StoredPluginStates as StoredPluginStates
    from reput.log.recovery.checkpoint import AbortFile as AbortFile
    from reput.store.config import decide as decide
    from reput.store.directory.directorycheck import BROKER_FILES as BROKER_FILES
    from reput.store.directory.directorycheck import UNFINISHED as UNFINISHED
    from reput.store.directory.directorycheck import BrokerFiles as BrokerFiles
    from reput.store.directory.directorycheck import FoundFiles as FoundFiles
    from reput.store.directory.directorycheck import batch_topics as batch_topics
    from reput.store.directory.directorycheck import find_broker_files as find_broker_files
    from reput.store.directory.directorycheck import is_known_name as is_known_name
    from reput.store.directory.directorycheck import refuse_broker_files as refuse_broker_files
    from reput.store.directory.directorycheck import refuse_unfinished as refuse_unfinished
    from reput.store.directory.storelock import StoreLock as StoreLock
    from reput.store.operations.arguments import path_argument as path_argument
else:
    __getattr__, __dir__ = lazy_exports(__name__)
