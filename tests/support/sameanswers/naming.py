"""The script's part about the name server: routes, settings by name, foreign brokers."""

from __future__ import annotations

import json
import zlib

from sameanswers.run import Run

OLD = 399
"""Of release 4.9.3, the last that gets keys without quotes."""
_ADDRESS = "127.0.0.1:1"


def registration(*topics: str, counter: int = 1) -> bytes:
    """The body with which a broker registers."""
    table = {
        name: {
            "order": False,
            "perm": 6,
            "readQueueNums": 2,
            "topicFilterType": "SINGLE_TAG",
            "topicName": name,
            "topicSysFlag": 0,
            "writeQueueNums": 2,
        }
        for name in topics
    }
    version = {"counter": counter, "stateVersion": 0, "timestamp": 1_700_000_000_000}
    wrapper = {"dataVersion": version, "topicConfigTable": table}
    return json.dumps({"filterServerList": [], "topicConfigSerializeWrapper": wrapper}).encode()


def broker(name: str = "strange", **more: object) -> dict[str, object]:
    """The fields with which a broker registers."""
    return {
        "brokerName": name,
        "brokerAddr": _ADDRESS,
        "clusterName": "others",
        "haServerAddr": "127.0.0.1:2",
        "brokerId": 0,
        "compressed": False,
        **more,
    }


def ask_routes(run: Run) -> None:
    """Where topics are, and which brokers there are."""
    for name in ("orders", "TBW102", "nowhere", "a/b", "readonly"):
        run.ask(f"route of {name}", 105, {"topic": name}, who="names")
    run.ask("route for an old client", 105, {"topic": "orders"}, who="names", version=OLD)
    strict = {"topic": "orders", "acceptStandardJsonOnly": True}
    run.ask("route in standard JSON", 105, strict, who="names", version=OLD)
    run.ask("route of no topic", 105, None, who="names")
    run.ask("clusters", 106, None, who="names")
    run.ask("topics of the name server", 206, None, who="names")
    run.ask("topics of a cluster", 224, {"cluster": "reput"}, who="names")
    run.ask("topics of no cluster", 224, {"cluster": "none"}, who="names")
    run.ask("system topics of the name server", 304, None, who="names")
    for code in (311, 312, 313):
        run.ask(f"unit topics {code}", code, None, who="names")
    member = {"clusterName": "reput", "brokerName": "broker-a"}
    run.ask("members of a broker", 901, member, who="names")
    run.ask("members of no broker", 901, {**member, "brokerName": "none"}, who="names")
    run.ask("name server does not know", 9_999, None, who="names")
    run.ask("name server is no broker", 310, {"a": "g", "b": "orders"}, who="names")


def settings_by_name(run: Run) -> None:
    """Settings by namespace and key."""
    entry = {"namespace": "odds", "key": "one", "value": "1"}
    run.ask("setting not there", 101, {"namespace": "odds", "key": "one"}, who="names")
    run.ask("settings not there", 219, {"namespace": "odds"}, who="names")
    run.ask("setting put", 100, entry, who="names")
    run.ask("setting put again", 100, {**entry, "value": "2"}, who="names")
    run.ask("setting without a value", 100, {"namespace": "odds", "key": "two"}, who="names")
    run.ask("setting", 101, {"namespace": "odds", "key": "one"}, who="names")
    run.ask("setting of another key", 101, {"namespace": "odds", "key": "two"}, who="names")
    run.ask("settings", 219, {"namespace": "odds"}, who="names")
    run.ask("setting deleted", 102, {"namespace": "odds", "key": "one"}, who="names")
    run.ask("setting deleted again", 102, {"namespace": "odds", "key": "one"}, who="names")
    run.ask("setting after that", 101, {"namespace": "odds", "key": "one"}, who="names")
    run.ask("settings after that", 219, {"namespace": "odds"}, who="names")
    order = {"namespace": "ORDER_TOPIC_CONFIG", "key": "ordered", "value": "broker-a:4"}
    run.ask("order put", 100, order, who="names")
    run.ask("route in order", 105, {"topic": "ordered"}, who="names")


def register_other_brokers(run: Run) -> None:
    """A foreign broker comes, changes and leaves."""
    who = "names:strange"
    body = registration("foreign", "shared")
    version = json.loads(body)["topicConfigSerializeWrapper"]["dataVersion"]
    fields = broker()
    alive = {key: fields[key] for key in ("clusterName", "brokerAddr", "brokerName")}
    leaving = {**alive, "brokerId": 0}
    asked = json.dumps(version).encode()
    run.ask("version of no broker", 322, leaving, asked, who=who)
    wrong = broker(bodyCrc32=1)
    run.ask("register with a wrong sum", 103, wrong, body, who=who)
    summed = broker(bodyCrc32=zlib.crc32(body) & 0x7FFFFFFF)
    run.ask("register", 103, summed, body, who=who)
    run.ask("register again", 103, fields, registration("foreign", "shared", counter=2), who=who)
    run.ask("version of a broker", 322, leaving, asked, who=who)
    run.ask("same version of a broker", 322, leaving, _version_body(2), who=who)
    run.ask("alive", 904, alive, who=who)
    run.ask("foreign route", 105, {"topic": "foreign"}, who=who)
    run.ask("foreign cluster", 106, None, who=who)
    run.ask("foreign topics", 224, {"cluster": "others"}, who=who)
    run.ask("wiped", 205, {"brokerName": "strange"}, who=who)
    run.ask("wiped route", 105, {"topic": "foreign"}, who=who)
    run.ask("added", 327, {"brokerName": "strange"}, who=who)
    run.ask("added route", 105, {"topic": "foreign"}, who=who)
    run.ask("wiped nobody", 205, {"brokerName": "none"}, who=who)
    run.ask("added nobody", 327, {"brokerName": "none"}, who=who)
    slave = broker(brokerId=1, brokerAddr="127.0.0.1:3")
    run.ask("register a slave", 103, slave, registration("foreign"), who="names:slave")
    run.ask("members with a slave", 901, alive, who=who)
    run.ask("foreign topic deleted", 216, {"topic": "shared"}, who=who)
    run.ask("deleted route", 105, {"topic": "shared"}, who=who)
    run.ask("topic deleted that is not there", 216, {"topic": "nowhere"}, who=who)
    run.ask("register without a body", 103, broker("hollow", brokerAddr="127.0.0.1:4"), who=who)
    run.ask("register without fields", 103, None, body, who=who)
    single = broker("single", brokerAddr="127.0.0.1:5")
    run.ask("register with one topic", 103, single, registration("lonely"), who=who)
    run.ask("slave leaves", 104, {**leaving, "brokerId": 1, "brokerAddr": "127.0.0.1:3"}, who=who)
    run.ask("leave", 104, leaving, who=who)
    hollow = {**leaving, "brokerName": "hollow", "brokerAddr": "127.0.0.1:4"}
    run.ask("hollow leaves", 104, hollow, who=who)
    run.gone("foreign")
    run.ask("route after leaving", 105, {"topic": "foreign"}, who=who)
    run.ask("clusters after leaving", 106, None, who=who)


def _version_body(counter: int) -> bytes:
    body = json.loads(registration(counter=counter))
    return json.dumps(body["topicConfigSerializeWrapper"]["dataVersion"]).encode()
