"""The JSON files of RocketMQ's brokers: read as brokers read them, changed and never lost.

This package knows JSON as fastjson reads and writes it, and how a file and its backup are replaced.
It must not know what a document means: no topic, no group, no offset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.lazyexports import lazy_exports

if TYPE_CHECKING:
    from reput_tools.brokerfiles.brokerdocument import BACKUP_SUFFIX as BACKUP_SUFFIX
    from reput_tools.brokerfiles.brokerdocument import BrokerDocument as BrokerDocument
    from reput_tools.brokerfiles.brokerdocument import backup_of as backup_of
    from reput_tools.brokerfiles.brokerdocument import changing as changing
    from reput_tools.brokerfiles.documenttext import BareKey as BareKey
    from reput_tools.brokerfiles.documenttext import decode as decode
    from reput_tools.brokerfiles.documenttext import encode as encode
    from reput_tools.brokerfiles.documenttext import object_of as object_of
    from reput_tools.brokerfiles.errors import DatabaseDocumentError as DatabaseDocumentError
    from reput_tools.brokerfiles.errors import UnreadableDocumentError as UnreadableDocumentError
    from reput_tools.brokerfiles.looseparser import read_loosely as read_loosely
    from reput_tools.brokerfiles.looseparser import strict_decoder as strict_decoder
    from reput_tools.brokerfiles.loosevalues import flag_of as flag_of
    from reput_tools.brokerfiles.loosevalues import integer_of as integer_of
    from reput_tools.brokerfiles.loosevalues import member_of as member_of
    from reput_tools.brokerfiles.loosevalues import name_of as name_of
    from reput_tools.brokerfiles.loosevalues import plain_name as plain_name
    from reput_tools.brokerfiles.loosevalues import text_of as text_of
    from reput_tools.brokerfiles.tables import change_time as change_time
    from reput_tools.brokerfiles.tables import offset_of as offset_of
    from reput_tools.brokerfiles.tables import offsets_of as offsets_of
    from reput_tools.brokerfiles.tables import section_of as section_of
    from reput_tools.brokerfiles.tables import table_of as table_of
    from reput_tools.brokerfiles.unreadable import COPY_SUFFIX as COPY_SUFFIX
    from reput_tools.brokerfiles.unreadable import copies_in as copies_in
    from reput_tools.brokerfiles.unreadable import keep_copy as keep_copy
else:
    __getattr__, __dir__ = lazy_exports(__name__)
