"""The script's part about clients: heartbeats, members, locks, what comes back, transactions."""

from __future__ import annotations

import json

from sameanswers.reading import pull
from sameanswers.run import Run
from sameanswers.sending import BORN, long, short

_LEVEL = "1"


def heartbeat(client: str, *groups: str, producer: str | None = None, **more: object) -> bytes:
    """The body of a heartbeat: a client that reads ``orders`` in each group."""
    subscription = {
        "classFilterMode": False,
        "codeSet": [],
        "expressionType": "TAG",
        "subString": "*",
        "subVersion": 5,
        "tagsSet": [],
        "topic": "orders",
    }
    members = {
        "clientID": client,
        "consumerDataSet": [
            {
                "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
                "consumeType": "CONSUME_PASSIVELY",
                "groupName": group,
                "messageModel": "CLUSTERING",
                "subscriptionDataSet": [subscription],
                "unitMode": False,
                **more,
            }
            for group in groups
        ],
        "heartbeatFingerprint": 0,
        "producerDataSet": [] if producer is None else [{"groupName": producer}],
        "withoutSub": False,
    }
    return json.dumps(members).encode()


def beat(run: Run) -> None:
    """Clients come and go."""
    run.ask("members of a group without any", 38, {"consumerGroup": "billing"})
    run.ask("beat", 34, None, heartbeat("one", "billing", producer="producers"), who="broker:one")
    run.ask("beat again", 34, None, heartbeat("one", "billing"), who="broker:one")
    run.ask("beat of another", 34, None, heartbeat("two", "billing"), who="broker:two")
    run.ask("beat of a new group", 34, None, heartbeat("two", "beaten"), who="broker:two")
    run.ask("beat without groups", 34, None, heartbeat("three"), who="broker:two")
    run.ask("beat of nobody", 34, None, b"{}", who="broker:odd")
    run.ask("beat that is no JSON", 34, None, b"{", who="broker:odd")
    run.ask("beat without a body", 34, None, b"", who="broker:odd")
    bad = heartbeat("odd", "a/b")
    run.ask("beat of a bad name", 34, None, bad, who="broker:odd")
    run.ask("one group that beat", 352, {"group": "beaten"})
    run.ask("one topic of its retries", 351, {"topic": "%RETRY%beaten"})
    run.until_members("billing", 2)
    run.ask("members", 38, {"consumerGroup": "billing"})
    run.ask("members of nobody", 38, {"consumerGroup": "nobody"})
    run.ask("members of no group", 38)
    run.ask("consumers", 203, {"consumerGroup": "billing"})
    run.ask("producers", 204, {"producerGroup": "producers"})
    run.ask("pull as the group has said", 11, pull("orders", sysFlag=0, subscription=None))
    run.ask("pull newer than it has said", 11, pull("orders", sysFlag=0, subVersion=9))
    run.ask("pull of what it has not said", 11, pull("narrow", sysFlag=0))
    told = run.told("broker:one", 40)
    run.note("told that members changed", told)
    check = {
        "clientId": "one",
        "group": "billing",
        "subscriptionData": {"expressionType": "SQL92", "subString": "a > 1", "topic": "orders"},
    }
    run.ask("check", 46, None, json.dumps(check).encode())
    check["subscriptionData"]["subString"] = "a >"
    run.ask("check what is wrong", 46, None, json.dumps(check).encode())
    check["subscriptionData"]["expressionType"] = "TAG"
    run.ask("check tags", 46, None, json.dumps(check).encode())
    run.ask("check nothing", 46)
    leaving = {"clientID": "two", "consumerGroup": "billing"}
    run.ask("leave a group", 35, leaving, who="broker:two")
    run.ask("leave it again", 35, leaving, who="broker:two")
    run.ask("leave nothing", 35, {"clientID": "two"}, who="broker:two")
    run.ask("leave without a name", 35, None, who="broker:two")
    run.until_members("billing", 1)
    run.ask("members who stayed", 38, {"consumerGroup": "billing"})


def lock(run: Run) -> None:
    """Queues that are held by one client."""
    queues = [{"brokerName": "broker-a", "queueId": at, "topic": "orders"} for at in (0, 1)]

    def body(client: str, *, queues: list = queues) -> bytes:
        members = {
            "clientId": client,
            "consumerGroup": "billing",
            "mqSet": queues,
            "onlyThisBroker": False,
        }
        return json.dumps(members).encode()

    run.ask("lock", 41, None, body("one", queues=queues[:1]))
    run.ask("lock again", 41, None, body("one"))
    run.ask("lock what is held", 41, None, body("two"))
    run.ask("unlock what another holds", 42, None, body("two"))
    run.ask("still held", 41, None, body("two"))
    run.ask("unlock", 42, None, body("one"))
    run.ask("lock what was held", 41, None, body("two"))
    run.ask("lock no queue", 41, None, body("two", queues=[]))
    run.ask("lock without a body", 41)
    run.ask("unlock without a body", 42)
    run.ask("unlock in the end", 42, None, body("two"))


def physical(run: Run, name: str) -> int:
    """The physical offset of what a send of the script has stored."""
    return int(run.exchanges[name].answer.fields["msgId"].split(",")[0][-16:], 16)


def give_back(run: Run) -> None:
    """What a consumer could not handle."""
    run.ask("send to give back", 310, short("timed", 0, {"KEYS": "back"}), b"fails")
    at = {"offset": physical(run, "send to give back"), "group": "billing", "originTopic": "timed"}
    at |= {"originMsgId": "id", "unitMode": False, "maxReconsumeTimes": 16}
    run.ask("give back", 36, {**at, "delayLevel": 1})
    run.settle("%RETRY%billing", 0, 2)
    run.ask("pull what came again", 11, pull("%RETRY%billing"))
    run.ask("give back as dead", 36, {**at, "delayLevel": -1})
    run.settle("%DLQ%billing", 0, 2)
    run.ask("pull dead", 11, pull("%DLQ%billing"))
    run.ask("give back at last", 36, {**at, "delayLevel": 0, "maxReconsumeTimes": 0})
    run.settle("%DLQ%billing", 0, 3)
    run.ask("give back without a limit", 36, {**at, "delayLevel": 1, "maxReconsumeTimes": None})
    run.settle("%RETRY%billing", 0, 3)
    run.ask("give back, no group", 36, {**at, "group": "unknown", "delayLevel": 1})
    run.ask("give back, no retries", 36, {**at, "group": "noretry", "delayLevel": 1})
    run.ask("give back nothing", 36, {**at, "offset": 1 << 40, "delayLevel": 1})
    run.ask("give back from within", 36, {**at, "offset": at["offset"] + 3, "delayLevel": 1})
    run.ask("give back without a place", 36, {**at, "offset": None, "delayLevel": 1})
    run.ask("give back without a level", 36, at)
    run.ask("one topic of dead letters given back", 351, {"topic": "%DLQ%billing"})


def delay(run: Run) -> None:
    """What comes later."""
    run.ask("send late", 310, short("timed", 0, {"DELAY": "1"}), b"late")
    run.settle("timed", 0, 2)
    run.ask("send too late", 310, short("timed", 0, {"DELAY": "99"}), b"too late")
    run.ask("send at no level", 310, short("timed", 0, {"DELAY": "0"}), b"not late")
    run.settle("timed", 0, 3)
    run.ask("send at an odd level", 310, short("timed", 0, {"DELAY": "x"}), b"odd")
    run.ask("send at a time gone by", 310, short("timed", 0, {"TIMER_DELIVER_MS": BORN}), b"gone")
    run.ask("send in a second", 310, short("timed", 0, {"TIMER_DELAY_SEC": 1}), b"a second")
    run.ask("send at an odd time", 310, short("timed", 0, {"TIMER_DELAY_MS": "x"}), b"odd")
    run.settle("timed", 0, 5)  # in the log of both, however soon they stop


def end(run: Run) -> None:
    """Transactions."""

    def half(name: str, **more: object) -> dict:
        properties = {"TRAN_MSG": "true", "PGROUP": "producers", "TAGS": "half"}
        answer = run.ask(name, 310, short("halves", 0, properties, sysFlag=4), b"half")
        return {
            "producerGroup": "producers",
            "tranStateTableOffset": answer.fields.get("queueOffset"),
            "commitLogOffset": physical(run, name),
            "commitOrRollback": 8,
            "fromTransactionCheck": False,
            "msgId": "id",
            "transactionId": "id",
            "topic": "halves",
            **more,
        }

    first = half("half")
    run.ask("commit a half", 37, first)
    run.settle("halves", 0, 1)
    run.ask("pull what was committed", 11, pull("halves"))
    second = half("half to roll back", commitOrRollback=12)
    run.ask("roll back", 37, second)
    third = half("half to be asked of")
    run.unanswered("half unknown", 37, {**third, "commitOrRollback": 0})
    run.unanswered("half of no such end", 37, {**third, "commitOrRollback": 5})
    run.ask("commit of another group", 37, {**third, "producerGroup": "others"})
    run.ask("commit at a wrong place", 37, {**third, "tranStateTableOffset": 99})
    run.ask("commit of nothing", 37, {**third, "commitLogOffset": 1 << 40})
    run.ask("commit of no half", 37, {**third, "commitLogOffset": 0})
    run.ask("commit without a place", 37, {**third, "commitLogOffset": None})
    run.ask("commit in the end of it", 37, third)
    run.settle("halves", 0, 2)
    named = long("halves", 0, {"TRAN_MSG": "true"}, sysFlag=4)
    run.ask("half without a group", 10, named, b"half")


def reply(run: Run) -> None:
    """Replies to who asked."""
    asked = {"REPLY_TO_CLIENT": "one", "CORRELATION_ID": "c", "MSG_TYPE": "reply", "TTL": 3000}
    nobody = short("reput_REPLY_TOPIC", 0, {**asked, "REPLY_TO_CLIENT": "nobody"})
    run.ask("reply to nobody", 325, nobody, b"answer")
    run.ask("reply to no name", 325, short("reput_REPLY_TOPIC", 0), b"answer")
    run.ask("reply in words to nobody", 324, long("reput_REPLY_TOPIC", 0), b"answer")
