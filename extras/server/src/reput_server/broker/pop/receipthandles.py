"""Receipt handles as RocketMQ's clients and answers to their requests write them.

A client makes the handle of a message itself, of the fields of an answer, as eight words:

    startOffset popTime invisibleTime reviveQid kind broker queueId queueOffset

Here ``popTime`` and ``reviveQid`` are the nonce of `Handle`: when the message was delivered, and a
number that distinguishes deliveries of the same millisecond. RocketMQ's ``reviveQid`` is a queue of
its revive log, which this server does not have.

Source: RocketMQ ``ExtraInfoUtil``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from reput_client.remoting import PopAnswer, ResponseCode
from reput_consumer import Handle, pop_retry_topic
from reput_server.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput_client.remoting import Ack, AckedQueue, ChangeInvisible
    from reput_consumer import Popped, PopService

_NORMAL: Final = "0"
_RETRY: Final = "1"
_KINDS: Final = (_NORMAL, _RETRY)
_WORDS: Final = 5
"""Words of a handle that are looked at; the others are fields of their own."""
_LENGTH_MAX: Final = 1_000


def answer_of(found: Sequence[Popped], invisible_ms: int, *, is_ordered: bool) -> PopAnswer:
    """Return the header of the answer that hands messages out; their records are its body."""
    first = found[0].handle
    offsets: dict[tuple[str, int], list[int]] = {}
    for each in found:
        key = _KINDS[each.handle.is_retry], each.handle.queue_id
        offsets.setdefault(key, []).append(each.queue_offset)
    counts = [
        f"{_KINDS[each.handle.is_retry]} qo{each.handle.queue_id}%{each.queue_offset} "
        f"{each.attempt_count - 1}"
        for each in found
        if each.attempt_count > 1
    ]
    return PopAnswer(
        pop_time=first.pop_time,
        invisible_time=invisible_ms,
        revive_qid=first.serial,
        start_offset_info=";".join(
            f"{kind} {queue_id} {min(each)}" for (kind, queue_id), each in offsets.items()
        ),
        msg_offset_info=";".join(
            f"{kind} {queue_id} {','.join(map(str, each))}"
            for (kind, queue_id), each in offsets.items()
        ),
        order_count_info=";".join(counts) if is_ordered else None,
    )


def topic_of(asked: Ack | ChangeInvisible) -> str:
    """Return the topic of the request for a message, which may have come from its retry topic.

    Raises:
        Refusal: the handle is not valid.
    """
    if _words(asked)[4] == _NORMAL:
        return asked.topic
    prefix = f"{pop_retry_topic(asked.consumer_group, 'x')[:-1]}"
    if not asked.topic.startswith(prefix):
        raise _refusal(asked.extra_info)
    return asked.topic.removeprefix(prefix)


def handle_of(popper: PopService, asked: Ack | ChangeInvisible) -> Handle | None:
    """Return the handle that a request names; None if it is void.

    Raises:
        Refusal: it is not valid.
    """
    words = _words(asked)
    try:
        pop_time, serial = int(words[1]), int(words[3])
    except ValueError:
        raise _refusal(asked.extra_info) from None
    return popper.handle_of(
        asked.queue_id, asked.offset, pop_time, serial, is_retry=words[4] == _RETRY
    )


def handles_of(popper: PopService, acked: AckedQueue) -> list[Handle]:
    """Return the handles of messages of one queue; void handles are left out."""
    if acked.kind not in _KINDS:
        return []
    handles = [
        popper.handle_of(
            acked.queue_id, offset, acked.pop_time, acked.revive_qid, is_retry=acked.kind == _RETRY
        )
        for offset in acked.queue_offsets
    ]
    return [each for each in handles if each is not None]


def _words(asked: Ack | ChangeInvisible) -> list[str]:
    words = asked.extra_info[:_LENGTH_MAX].split(" ")
    if len(words) < _WORDS or words[4] not in _KINDS:
        raise _refusal(asked.extra_info)
    return words


def _refusal(text: str) -> Refusal:
    return Refusal(ResponseCode.SYSTEM_ERROR, f"extraInfo {text[:100]!r} is not a valid handle")
