"""The path of a message that fails: its copies wait in delay levels, come back, and end."""

from __future__ import annotations

from typing import NamedTuple

from paper import Drawing

_DELAYS = ("10s", "30s", *(f"{minutes}m" for minutes in (*range(1, 11), 20, 30)), "1h", "2h")
_GROUP = "billing"


class Words(NamedTuple):
    """The picture's words in one language."""

    name: str
    title: str
    description: str
    topic: str
    handed_out: str
    handler: tuple[str, str]
    done: str
    offset: tuple[str, str]
    fails: str
    copy: str
    at_once: str
    comes_again: str
    levels: str
    dead: str
    resend: str


ENGLISH = Words(
    name="retries",
    title="The path of a message that fails",
    description=(
        "A member of the group billing is handed a message of the topic orders. When its handler "
        "returns, the group's offset goes on. When it fails, a copy is stored and the offset goes "
        "on, too. The copy waits in one of sixteen delay levels, 10 seconds to 2 hours, then "
        "stands in the topic %RETRY%billing and is handed out again. A message that fails "
        "after sixteen retries stands in %DLQ%billing, from where reput dlq resend gives it to its "
        "group once more."
    ),
    topic="queue by queue",
    handed_out="handed out",
    handler=("handler", f"a member of {_GROUP}"),
    done="returns",
    offset=("offset + 1", "the group goes on"),
    fails="raises, returns False, or takes over 15 minutes",
    copy="a copy is stored",
    at_once="and the group goes on at once",
    comes_again="comes again",
    levels="SCHEDULE_TOPIC_XXXX: level 3 the first time, one more each time, up to level 18",
    dead="after 16 retries",
    resend="reput dlq resend",
)
CHINESE = Words(
    name="retries-zh",
    title="处理失败的消息走过的路",
    description=(
        "消费组 billing 的一个成员拿到主题 orders 的一条消息。处理函数返回后，消费组的位点前进。"
        "处理失败时，存入一份副本，位点同样前进。副本在十六个延时级别之一中等待，"
        "从 10 秒到 2 小时，然后出现在主题 %RETRY%billing 中，再次投递。"
        "重试十六次后仍失败的消息进入 %DLQ%billing，"
        "reput dlq resend 可以把它再交给消费组。"
    ),
    topic="逐个队列",
    handed_out="投递",
    handler=("处理函数", f"{_GROUP} 的一个成员"),
    done="正常返回",
    offset=("位点 + 1", "消费组继续前进"),
    fails="抛出异常、返回 False，或超过 15 分钟",
    copy="存入一份副本",
    at_once="消费组同时继续前进",
    comes_again="再次投递",
    levels="SCHEDULE_TOPIC_XXXX：第一次为级别 3，此后每次加一，直到级别 18",
    dead="已重试 16 次",
    resend="reput dlq resend",
)


def draw(words: Words) -> Drawing:
    """The picture with the words of a language."""
    page = Drawing(words.name, 820, 366, words.title, words.description)
    page.labelled(12, 32, 150, 56, ("orders", words.topic), "log", 15)
    page.way([(162, 60), (298, 60)], "log")
    page.text(230, 52, words.handed_out, "soft", 12.5)
    page.labelled(300, 32, 180, 56, words.handler, "mark", 15)
    page.way([(480, 60), (638, 60)], "plugin")
    page.text(559, 52, words.done, "soft", 12.5)
    page.labelled(640, 32, 168, 56, words.offset, "plugin", 15)

    page.way([(390, 88), (390, 146)], "mark")
    page.text(400, 120, words.fails, "soft", 12.5, "start")
    page.labelled(290, 148, 200, 56, (words.copy, "RETRY_TOPIC, ORIGIN_MESSAGE_ID"), "mark", 15)
    page.way([(490, 176), (724, 176), (724, 90)], "plugin", dashed=True)
    page.text(607, 194, words.at_once, "soft", 12.5)

    page.way([(390, 204), (390, 244)], "mark")
    for number, delay in enumerate(_DELAYS):
        left = 100 + number * 35
        page.box(left, 246, 33, 40, "plain", 3)
        page.text(left + 16.5, 270, delay, "mono", 11.5)
    page.text(379, 306, words.levels, "soft", 12.5)
    page.way([(100, 266), (87, 266), (87, 206)], "log")
    page.labelled(12, 148, 150, 56, (f"%RETRY%{_GROUP}", words.comes_again), "log", 15, "mono")
    page.way([(162, 176), (230, 176), (230, 76), (298, 76)], "log")
    page.way([(658, 266), (682, 266)], "spark")
    page.labelled(684, 238, 124, 56, (f"%DLQ%{_GROUP}", words.dead), "spark", 15, "mono")
    page.way([(746, 294), (746, 338), (40, 338), (40, 206)], "spark", dashed=True)
    page.text(393, 355, words.resend, "soft mono", 12)
    return page
