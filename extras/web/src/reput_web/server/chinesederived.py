"""Texts in Chinese of the pages of transactions, compaction, repairs and selected times."""

from __future__ import annotations

from typing import Final

CHINESE_DERIVED: Final[dict[str, str]] = {
    # a chart over time
    "No messages in this time.": "这段时间没有消息。",
    "Time": "时间",
    "Zoom in": "放大",
    "earlier": "更早",
    "later": "更晚",
    "whole time": "全部时间",
    "The messages are not counted yet.": "消息还没有统计。",
    "Count all": "全部统计",
    # topics
    "compacted": "压实",
    "Keys and versions": "Key 和版本",
    "Settings": "设置",
    "queues to read, to write": "读队列数、写队列数",
    "may be read, written": "可读、可写",
    "yes": "是",
    "no": "否",
    "ordered": "顺序",
    # messages
    "Versions of the key": "Key 的版本",
    "position in the files of the queue": "在队列文件中的位置",
    "kept in the files of the compacted queue": "保留在压实队列的文件中",
    "note of the timer wheel": "时间轮的记录",
    "a newer message of the key has superseded it": "已被该 Key 的更新消息取代",
    # groups
    "From topic": "来源主题",
    "Sent back": "退回次数",
    "Cause": "原因",
    "all retries are used up": "重试次数已用完",
    "the consumer gave it up": "消费者放弃了它",
    # transactions
    "Transactions": "事务",
    "Open transactions": "未结束的事务",
    "The plugin transaction is not installed, so transactions are not known.": (
        "没有安装插件 transaction，因此不知道事务。"
    ),
    "open": "未结束",
    "All half messages": "所有半消息",
    "The log is not read to its end: transactions may be missing, or may have ended.": (
        "日志还没有读完：可能缺少事务，或事务已经结束。"
    ),
    "Read on": "继续读取",
    "Age": "已存在",
    "For topic": "目标主题",
    "Producer group": "生产者组",
    "Asked": "回查次数",
    "Transaction": "事务",
    "Newer transactions": "更新的事务",
    "Asked: how often the store has asked the producer for the outcome. "
    "The command reput transactions ends a transaction by hand.": (
        "回查次数：存储向生产者询问结果的次数。命令 reput transactions 可手动结束事务。"
    ),
    "No transaction is open.": "没有未结束的事务。",
    # compaction
    "Compaction": "压实",
    "Compacted topics": "压实的主题",
    "The store does not use the plugin compaction.": "这个存储没有使用插件 compaction。",
    "No compacted topic has messages.": "压实的主题中没有消息。",
    "deletes its key": "删除该 Key",
    "all keys": "所有 Key",
    "Kept": "保留",
    "No version in this part of the queue.": "队列的这一部分没有该 Key 的版本。",
    "The compacted files have no message of this key.": "压实文件中没有该 Key 的消息。",
    "Superseded, still in the log": "已被取代，仍在日志中",
    "Versions": "版本",
    "Newest version": "最新版本",
    "Versions are counted among the messages that this page has read:": (
        "版本数只统计本页读取的消息："
    ),
    "Next keys": "后面的 Key",
    "Files": "文件",
    "Compacted to": "已压实到",
    "Last compaction": "上次压实",
    # repairs and bytes
    "Plan a repair": "制定修复计划",
    "Shows what a repair would do, and changes nothing. "
    "No process may have the store open to write.": (
        "显示修复会做什么，不修改任何内容。不能有进程正在写入这个存储。"
    ),
    "The bytes": "这些字节",
    "The file ends before this position.": "文件在这个位置之前就结束了。",
    "Plan of a repair": "修复计划",
    "The plan was not made:": "没有制定计划：",
    "The log needs no repair: every checksum matches, and the files beside it can be read.": (
        "日志不需要修复：所有校验和都匹配，其他文件可以读取。"
    ),
    "Derived files were not compared with the log. "
    "The command reput repair STORE --dry-run compares them.": (
        "没有将派生文件与日志比较。命令 reput repair STORE --dry-run 会比较它们。"
    ),
    "A repair is needed. Messages that are lost, as far as known:": (
        "需要修复。已知丢失的消息数："
    ),
    "command": "命令",
    "space, at most": "最多需要的空间",
    "messages that stay": "保留的消息",
    "Lost": "丢失",
    "Physical offset": "物理偏移量",
    "Reason": "原因",
    "Becomes": "变为",
    "filled": "填充",
    "cut": "截断",
    "Messages that only queues know": "只有队列知道的消息",
    "Fields that are put right": "更正的字段",
    "Planned": "计划时间",
}
