"""The options of a broker by RocketMQ's names: what they are, and which change while it runs.

An option that this broker does not have is not listed.

Source: RocketMQ ``BrokerConfig``, ``MessageStoreConfig``, ``NettyServerConfig``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput_server.broker.topictable import READ, WRITE
from reput_server.replication.replica import HEARTBEAT_SECONDS, SILENCE_SECONDS, TRANSFER_SIZE
from reput_server.replication.replicaacks import GAP_MAX

if TYPE_CHECKING:
    from reput_server.broker.brokercontext import BrokerContext
    from reput_server.broker.liveoptions import LiveOptions

_HOUR_MS: Final = 3_600_000
_UNIT_SIZE: Final = 20
_INT_MAX: Final = (1 << 31) - 1


def settings_of(context: BrokerContext) -> dict[str, str]:
    """Return all options as texts."""
    found = {**_of_broker(context), **_of_store(context), **_of_plugins(context)}
    return {name: _text(value) for name, value in found.items()}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _of_broker(context: BrokerContext) -> dict[str, Any]:
    config, (host, port) = context.config, context.address
    limits = config.limits
    return {
        **_of_replicas(context),
        "aclEnable": bool(config.access_keys),
        "autoCreateSubscriptionGroup": context.is_writable,
        "autoCreateTopicEnable": context.topics.creates_topics,
        "brokerClusterName": config.cluster,
        "brokerIP1": host,
        "brokerId": 0,
        "brokerName": context.name,
        "brokerPermission": context.options.permissions,
        "brokerRole": "SYNC_MASTER" if config.sync_replicas else "ASYNC_MASTER",
        "enablePropertyFilter": context.has("filter"),
        "flushConsumerOffsetInterval": context.plugin.config.save_interval_ms,
        "listenPort": port,
        "longPollingEnable": True,
        "rejectTransactionMessage": not context.has("transaction"),
        "sendThreadPoolQueueCapacity": limits.waiting_sends,
        "serverChannelMaxIdleTimeSeconds": limits.idle_seconds,
        "slaveReadEnable": False,
        "traceTopicEnable": False,
        "waitTimeMillsInSendQueue": limits.send_wait_ms,
    }


def _of_replicas(context: BrokerContext) -> dict[str, Any]:
    if context.ha_port is None:
        return {}
    host, port = context.ha_port
    return {
        "brokerIP2": host,
        "haHousekeepingInterval": int(SILENCE_SECONDS * 1000),
        "haListenPort": port,
        "haMaxGapNotInSync": GAP_MAX,
        "haSendHeartbeatInterval": int(HEARTBEAT_SECONDS * 1000),
        "haTransferBatchSize": TRANSFER_SIZE,
        # The master itself counts.
        "inSyncReplicas": context.config.sync_replicas + 1,
        "slaveTimeout": context.config.limits.replica_wait_ms,
    }


def _of_store(context: BrokerContext) -> dict[str, Any]:
    store = context.store
    log = store.config
    return {
        "flushDiskType": "SYNC_FLUSH" if log.flush == "sync" else "ASYNC_FLUSH",
        "flushIntervalCommitLog": log.flush_interval_ms,
        "mappedFileSizeCommitLog": log.file_size,
        "maxMessageSize": log.max_message_size,
        "storePathCommitLog": f"{store.root}/commitlog",
        "storePathRootDir": store.root,
        "syncFlushTimeout": log.flush_timeout_ms,
    }


def _of_plugins(context: BrokerContext) -> dict[str, Any]:
    plugins = context.store.plugin_objects
    found: dict[str, Any] = {
        "messageIndexEnable": "index" in plugins,
        "timerWheelEnable": "schedule" in plugins,
    }
    options = {name: plugin.config for name, plugin in plugins.items() if hasattr(plugin, "config")}
    if "consumequeue" in options:
        found["mappedFileSizeConsumeQueue"] = options["consumequeue"].units_per_file * _UNIT_SIZE
        found["enableConsumeQueueExt"] = options["consumequeue"].extend
    if "index" in options:
        found["maxHashSlotNum"] = options["index"].slots_per_file
        found["maxIndexNum"] = options["index"].items_per_file
    if "retention" in options:
        kept = options["retention"]
        if kept.reserved_ms:  # kept for ever otherwise, which no number of theirs says
            found["fileReservedTime"] = kept.reserved_ms // _HOUR_MS
            found["deleteWhen"] = kept.delete_when.partition(" ")[0]  # without its time zone
        if kept.disk_max_ratio:
            found["diskMaxUsedSpaceRatio"] = round(kept.disk_max_ratio * 100)
    if "schedule" in options:
        found["messageDelayLevel"] = options["schedule"].delay_levels
        found["timerMaxDelaySec"] = context.config.limits.timer_delay_seconds
        found["timerPrecisionMs"] = options["schedule"].precision_ms
    if "transaction" in options:
        found["transactionTimeOut"] = options["transaction"].timeout_ms
        found["transactionCheckMax"] = options["transaction"].check_max
        found["transactionCheckInterval"] = options["transaction"].check_interval_ms
    return found


# --------------------------------------------------------------------------- changing


def _set_permissions(options: LiveOptions, value: int) -> None:
    options.change(options.config, value)


def _set_creates(options: LiveOptions, value: bool) -> None:
    config = attrs.evolve(options.config, creates_topics=value)
    options.change(config, options.permissions)


def _set_limit(name: str) -> Callable[[LiveOptions, int], None]:
    def change(options: LiveOptions, value: int) -> None:
        limits = attrs.evolve(options.limits, **{name: value})
        options.change(attrs.evolve(options.config, limits=limits), options.permissions)

    return change


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("true or false expected")
    return text.lower() == "true"


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text[:11]) <= _INT_MAX:
        raise ValueError("a positive integer expected")
    return int(text)


def _permissions(text: str) -> int:
    if text not in ("0", "2", "4", "6"):
        raise ValueError(f"the sum of {READ} for reading and {WRITE} for writing expected")
    return int(text)


_Change = tuple[Callable[[str], Any], Callable[["LiveOptions", Any], None]]

CHANGES: Final[dict[str, _Change]] = {
    "autoCreateTopicEnable": (_flag, _set_creates),
    "brokerPermission": (_permissions, _set_permissions),
    "sendThreadPoolQueueCapacity": (_count, _set_limit("waiting_sends")),
    "timerMaxDelaySec": (_count, _set_limit("timer_delay_seconds")),
    "waitTimeMillsInSendQueue": (_count, _set_limit("send_wait_ms")),
}
"""What changes while the broker runs: how a text is read, and how its value becomes true."""


def change(context: BrokerContext, wanted: dict[str, str]) -> None:
    """Change options; all of them, or none.

    Raises:
        ValueError: one of them has no such value, or cannot be changed while the broker runs.
    """
    values = {}
    before = settings_of(context)
    for name, text in wanted.items():
        shown = f"{name[:80]}={text[:80]}"
        if name not in CHANGES:
            if before.get(name) == text:
                continue  # a tool that sends back all values
            if name not in before:
                raise ValueError(f"{shown}: this broker has no such option")
            changeable = ", ".join(sorted(CHANGES))
            raise ValueError(
                f"{shown}: it cannot be changed while the broker runs; {changeable} can, the "
                "others by options of the store and of reput serve"
            )
        try:
            values[name] = CHANGES[name][0](text)
        except ValueError as error:
            raise ValueError(f"{shown}: {error}") from None
    if values.get("autoCreateTopicEnable") and not context.is_writable:
        raise ValueError("autoCreateTopicEnable=true: the store was opened for reading")
    for name, value in values.items():
        CHANGES[name][1](context.options, value)
