"""Texts of the pages that change the store, and of the page Server, in Chinese."""

from __future__ import annotations

from typing import Final

CHINESE_ACTIONS: Final[dict[str, str]] = {
    # every page
    "These pages can change the store. Times are UTC.": "这些页面可以修改存储。时间为 UTC。",
    "Server": "服务器",
    "Actions": "操作",
    # the log of actions
    "This server changes nothing. The option --write lets it.": (
        "这个服务器不修改任何内容。选项 --write 允许修改。"
    ),
    "Log of actions": "操作日志",
    "Time": "时间",
    "Action": "操作",
    "Values": "值",
    "By": "操作者",
    "Result": "结果",
    "The pages have changed nothing in this store.": "这些页面没有修改过这个存储。",
    "begun": "已开始",
    "done": "已完成",
    "failed": "失败",
    # questions
    "What will happen": "将会发生什么",
    "The process that serves the store does it.": "由正在服务这个存储的进程执行。",
    (
        "The store is opened for writing, changed and closed again. No other process may write it "
        "meanwhile."
    ): "存储会以写方式打开，修改后再关闭。其间其他进程不能写入它。",
    "If another process has the store open for writing, that process does it.": (
        "如果另一个进程正以写方式打开这个存储，则由那个进程执行。"
    ),
    "The log of actions records it.": "操作日志会记录它。",
    "Yes": "是",
    "Cancel": "取消",
    "Change the values": "修改这些值",
    "optional": "可选",
    "Continue": "继续",
    "The next page says what will happen, and asks.": "下一页说明将会发生什么，并请您确认。",
    # fields
    "Keys": "Key",
    "Physical offset": "物理偏移量",
    "Permissions": "权限",
    "Offset now": "当前位点",
    "New offset": "新位点",
    "Change": "变化",
    "any": "任意",
    "with spaces between them": "用空格分隔",
    "name=value": "名称=值",
    "earliest, latest, an offset, -1h, 2026-01-31T12:00:00Z": (
        "earliest、latest、位点、-1h、2026-01-31T12:00:00Z"
    ),
    # actions
    "Send a test message": "发送测试消息",
    "Send": "发送",
    "Resend a dead letter": "重新发送死信",
    "Resend": "重新发送",
    "Reset the offset of a group": "重置消费组的位点",
    "Reset": "重置",
    "Reset offset": "重置位点",
    "Create a topic": "创建主题",
    "Create": "创建",
    "Suspend a plugin": "暂停插件",
    "Suspend": "暂停",
    "Resume a plugin": "恢复插件",
    "Resume": "恢复",
    (
        "One message of {size} bytes is stored in topic {topic}. Consumers get it like any other "
        "message, and it cannot be taken back."
    ): "一条 {size} 字节的消息会存入主题 {topic}。消费者会像其他消息一样收到它，而且不能撤回。",
    "The store has no topic {topic}: it is created.": "存储中没有主题 {topic}：将会创建它。",
    (
        "A copy of {id} goes to the retry topic of group {group}. The group gets it as if it had "
        "never failed; no other group gets it."
    ): (
        "{id} 的副本会进入消费组 {group} 的重试主题。该消费组收到它时，如同它从未失败过；"
        "其他消费组不会收到。"
    ),
    "The dead letter stays in {topic}.": "死信仍留在 {topic} 中。",
    (
        "Group {group} goes on at these offsets of topic {topic}. It skips messages, or gets "
        "messages again."
    ): "消费组 {group} 将从主题 {topic} 的这些位点继续。它会跳过一些消息，或再次收到一些消息。",
    "The store has no group {group} yet: it is created.": (
        "存储中还没有消费组 {group}：将会创建它。"
    ),
    (
        "Topic {topic} is added to config/topics.json, with {queues} queues and the permissions "
        "{perm}."
    ): "主题 {topic} 会加入 config/topics.json，有 {queues} 个队列，权限为 {perm}。",
    (
        "Plugin {plugin} gets no messages until it is resumed, also after the store was closed. It "
        "keeps its files and its place in the log; the other plugins continue."
    ): (
        "在恢复之前，插件 {plugin} 不再收到消息，存储关闭后再打开也是如此。"
        "它保留自己的文件和在日志中的位置；其他插件继续运行。"
    ),
    "Plugin {plugin} goes on where it was suspended, and catches up with the log.": (
        "插件 {plugin} 从暂停处继续，并追上日志。"
    ),
    # groups
    "paused": "已暂停",
    "members subscribe differently": "成员的订阅不同",
    "the first since": "最早的一条已有",
    # the page Server
    "ok": "正常",
    "degraded": "降级",
    "failing": "故障",
    "following": "正在跟随",
    "connecting": "正在连接",
    "master gone": "主节点不可达",
    "Rates are of the last ten seconds, minute and ten minutes.": (
        "速率分别为最近十秒、一分钟和十分钟的平均值。"
    ),
    "As of": "截至",
    "messages in, a second": "每秒写入的消息",
    "messages out, a second": "每秒读出的消息",
    "connections": "连接",
    "since the start": "自启动以来",
    "messages in since the start": "启动以来写入的消息",
    "messages out since the start": "启动以来读出的消息",
    "pulls that wait for messages": "等待消息的拉取请求",
    "sends that wait": "等待的发送",
    "reads that wait": "等待的读取",
    "sends that were not stored": "没有存储的发送",
    "wait of the first send": "最早一个发送的等待时间",
    "replicas that sends wait for": "发送需等待的副本数",
    "rounds that replicas had too late": "副本未及时收到的轮次",
    "clients of RocketMQ 5": "RocketMQ 5 客户端",
    "receives that wait": "等待的接收",
    "Connections": "连接",
    "Port": "端口",
    "Address": "地址",
    "Requests": "请求",
    "Worked on": "处理中",
    "Unread answers": "未读取的应答",
    "Broker": "Broker",
    "Name server": "名字服务器",
    "Times since the start": "启动以来的耗时",
    "Of": "对象",
    "Counted": "次数",
    "Mean": "平均",
    "99 of 100 below": "99% 低于",
    "send, until it is answered": "发送，直到应答",
    "put of all sends that have arrived": "写入已到达的所有发送",
    "read for a pull": "为拉取而读",
    "Replicas": "副本",
    "Replica": "副本",
    "Not acknowledged": "未确认",
    "Sent": "已发送",
    "Not read": "未读取",
    "Clients of RocketMQ 5": "RocketMQ 5 的客户端",
    "Call": "调用",
    "Code": "代码",
    "Answers since the start": "启动以来的应答",
    "Busiest topics": "最繁忙的主题",
    "Messages a second": "每秒消息",
    "Since the start": "启动以来",
    "bytes behind the master": "落后主节点的字节",
    "messages behind": "落后的消息",
    "time behind": "落后的时间",
    "received since the start": "启动以来接收",
    "connections made": "建立的连接",
    "end of the log here": "本地日志的末尾",
    "on disk up to": "已写盘到",
    "seen by all plugins up to": "所有插件已处理到",
}
