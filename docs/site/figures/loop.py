"""The one picture: the log, the reput loop, plugins, Spark."""

from __future__ import annotations

from typing import NamedTuple

from paper import Drawing


class Words(NamedTuple):
    """The picture's words in one language."""

    name: str
    title: str
    description: str
    producers: str
    put: str
    log: str
    truth: str
    written: str
    again: str
    loop: str
    windows: str
    batches: str
    spark: str
    columns: str
    rebuild: str
    plugins: tuple[tuple[str, str], ...]
    derived: str


ENGLISH = Words(
    name="reput",
    title="How reput works",
    description=(
        "Producers put messages into the commit log. The reput loop reads the log again and hands "
        "it, in columnar batches, to plugins: consumequeue, index, filter, schedule, transaction, "
        "compaction, or yours. Arrow and Spark read the same log as columns, and Spark rebuilds "
        "the plugins' files."
    ),
    producers="producers",
    put="put",
    log="commit log",
    truth="the files of RocketMQ, the only truth",
    written="being written",
    again="read again",
    loop="reput loop",
    windows="window by window",
    batches="columnar batches",
    spark="Arrow · Spark",
    columns="the log as columns",
    rebuild="builds the same files",
    plugins=(
        ("consumequeue", "read by queue"),
        ("index", "find by key"),
        ("filter", "tags, SQL92"),
        ("schedule", "deliver later"),
        ("transaction", "all or nothing"),
        ("compaction", "latest by key"),
        ("your plugin", "whatever you like"),
    ),
    derived=(
        "Each plugin keeps files of its own. Delete them: "
        "they are rebuilt from the log, byte for byte."
    ),
)
CHINESE = Words(
    name="reput-zh",
    title="reput 的工作方式",
    description=(
        "生产者把消息写入提交日志。reput 循环重新读取日志，以列式批次分发给各个插件："
        "consumequeue、index、filter、schedule、transaction、compaction，或您自己的插件。"
        "Arrow 和 Spark 把同一份日志按列读取，Spark 还能重建插件的文件。"
    ),
    producers="生产者",
    put="put",
    log="提交日志 CommitLog",
    truth="RocketMQ 的文件，唯一的事实来源",
    written="正在写入",
    again="重新读取",
    loop="reput 循环",
    windows="逐个窗口",
    batches="列式批次",
    spark="Arrow · Spark",
    columns="按列读取日志",
    rebuild="重建同样的文件",
    plugins=(
        ("consumequeue", "按队列读取"),
        ("index", "按 Key 查找"),
        ("filter", "Tag、SQL92"),
        ("schedule", "延时投递"),
        ("transaction", "事务消息"),
        ("compaction", "每个 Key 的最新值"),
        ("您的插件", "由您决定"),
    ),
    derived="每个插件只维护自己的文件。删掉也无妨：它们会从日志重新生成，逐字节相同。",
)


def draw(words: Words) -> Drawing:
    """The picture with the words of a language."""
    page = Drawing(words.name, 820, 372, words.title, words.description)
    page.labelled(12, 44, 112, 56, (words.producers, words.put), "mark", 15)
    page.way([(124, 72), (178, 72)], "mark")

    page.text(186, 26, words.log, "strong", 15, "start")
    page.text(808, 26, words.truth, "soft", 12.5, "end")
    for number in range(3):
        x = 186 + number * 208
        page.box(x, 38, 206, 68, "log", 4)
        used = 206 if number < 2 else 96
        at, step = x + 8, 0
        widths = (22, 34, 18, 28, 40, 20)
        while at + widths[step % 6] < x + used - 4:
            page.box(at, 56, widths[step % 6], 32, "plain", 2)
            at += widths[step % 6] + 4
            step += 1
    page.text(750, 76, words.written, "soft", 11.5)

    page.way([(394, 106), (394, 148)], "log")
    page.text(404, 133, words.again, "soft", 12.5, "start")
    page.labelled(264, 150, 260, 56, (words.loop, words.windows), "log", 16)
    page.curve("M 292 162 a 17 17 0 1 0 16 14", "log")

    page.way([(706, 106), (706, 148)], "spark")
    page.labelled(604, 150, 204, 56, (words.spark, words.columns), "spark", 15)

    page.way([(394, 206), (394, 234)], "plugin", head=False)
    page.text(404, 226, words.batches, "soft", 12.5, "start")
    page.way([(63, 234), (757, 234)], "plugin", head=False)
    page.way([(706, 206), (706, 234)], "spark", head=False, dashed=True)
    page.text(698, 226, words.rebuild, "soft", 11.5, "end")
    for number, lines in enumerate(words.plugins):
        left = 10 + number * 115.7
        yours = number == len(words.plugins) - 1
        page.way([(left + 53, 234), (left + 53, 258)], "plugin")
        page.labelled(left, 260, 106, 58, lines, "mark" if yours else "plugin", 13.5)
    page.text(410, 350, words.derived, "soft", 13)
    return page
