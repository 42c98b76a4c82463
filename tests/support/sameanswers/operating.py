"""The script's part about operators, who move, look at and delete groups and topics."""

from __future__ import annotations

from sameanswers.administering import group, topic
from sameanswers.run import Run
from sameanswers.sending import short

TOPIC = "operated"
COUNT = 5


def operate(run: Run) -> None:
    """Five messages in one of two queues; of them one group has read three, another one."""
    run.ask("topic operated", 17, topic(TOPIC, 2, 2))
    for at in range(COUNT):
        run.ask(f"send to operate {at}", 310, short(TOPIC, 0), b"%d" % at)
    run.settle(TOPIC, 0, COUNT)
    for name, offset in (("moved", 3), ("slow", 1)):
        run.ask(f"group {name}", 200, None, group(name))
        for queue_id in (0, 1):
            fields = {**_at(name, queue_id), "commitOffset": 0 if queue_id else offset}
            run.ask(f"commit {name} {queue_id}", 15, fields)
    _look(run)
    _clone(run)
    _move(run)
    _delete(run)


def _at(name: str, queue_id: int = 0) -> dict[str, object]:
    return {"consumerGroup": name, "topic": TOPIC, "queueId": queue_id}


def _where(run: Run, name: str, when: str) -> None:
    run.ask(f"{name} {when}", 14, {**_at(name), "setZeroIfNotFound": False})


def _look(run: Run) -> None:
    of = {"topic": TOPIC, "group": "moved"}
    run.ask("times of a group", 303, of)
    run.ask("times of no topic", 303, {**of, "topic": "nowhere"})
    for name in ("moved", "slow"):
        run.ask(f"correction of {name}", 308, {"topic": TOPIC, "compareGroup": name})
    run.ask("topics of a group", 343, of)
    run.ask("topics of no group", 343, {"group": "nobody"})
    run.ask("subscription of a group", 345, of)
    entries = {"topic": TOPIC, "queueId": 0, "index": 1, "count": 3}
    run.ask("entries", 321, entries)
    run.ask("entries of a group", 321, {**entries, "count": 1, "consumerGroup": "moved"})
    running = {"consumerGroup": "moved", "clientId": "me", "jstackEnable": False}
    run.ask("running info of no client", 307, running)


def _clone(run: Run) -> None:
    fields = {"srcGroup": "moved", "destGroup": "third", "topic": TOPIC, "offline": False}
    run.ask("clone", 314, fields)
    _where(run, "third", "cloned")
    run.ask("clone of no topic", 314, {**fields, "destGroup": "fourth", "topic": "nowhere"})
    _where(run, "fourth", "cloned")


def _move(run: Run) -> None:
    def move(what: str, **more: object) -> None:
        fields = {"topic": TOPIC, "group": "moved", "isForce": True, "timestamp": 0, **more}
        run.ask(f"move {what}", 222, fields)

    move("to the begin")
    _where(run, "moved", "to the begin")
    run.ask("commit before it is told", 15, {**_at("moved"), "commitOffset": 4})
    _where(run, "moved", "before it is told")
    move("to the end", timestamp=-1)
    _where(run, "moved", "to the end")
    move("beyond all times", timestamp=1 << 50)
    move("to an offset", queueId=0, offset=2)
    _where(run, "moved", "to an offset")
    move("to no offset", queueId=1, offset=-1)
    move("beyond a queue", queueId=0, offset=99)
    move("of no topic", topic="nowhere")
    move("of no group", group="nobody")


def _delete(run: Run) -> None:
    run.ask("commit slow again", 15, {**_at("slow"), "commitOffset": 1})
    for name, cleans in (("slow", False), ("slow", True), ("nobody", True)):
        fields = {"groupName": name, "cleanOffset": cleans}
        run.ask(f"delete {name}, offsets {cleans}", 207, fields)
        _where(run, name, f"deleted {cleans}")
    for name in (" ", "SCHEDULE_TOPIC_XXXX", "nowhere"):
        run.ask(f"delete topic {name}", 215, {"topic": name})
    for code in (316, 306, 329):
        run.ask(f"clean {code}", code)
    run.ask("delete topic operated", 215, {"topic": TOPIC})
    run.ask("one topic deleted", 351, {"topic": TOPIC})
    run.ask("stats of a deleted topic", 202, {"topic": TOPIC})
    run.ask("commit to a deleted topic", 15, {**_at("moved"), "commitOffset": 1})
    _where(run, "third", "after its topic")
    run.ask("readers of a deleted topic", 300, {"topic": TOPIC})
