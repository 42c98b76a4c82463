"""Every number that is an option has bounds, and whatever is inside of them works."""

from __future__ import annotations

import importlib
import math
import pkgutil
from typing import Any, Final

import attrs
import pytest

import reput
from reput.errors import ConfigError, DiskFullError
from reput.plugin import build_config, installed
from reput_client import ClientOptions
from reput_consumer.group.membersettings import MemberSettings
from reput_consumer.processqueue import Limits as FetchLimits
from reput_server.broker.liveoptions import LiveOptions as BrokerOptions  # of what users gave
from reput_server.config import Limits, ServerConfig
from reput_server.follow import FollowConfig

CORE: Final = {
    "commitlog": reput.CommitLogConfig,
    "dispatch": reput.DispatchConfig,
}
PLUGINS: Final = {
    found.name: found.load().config_type
    for found in installed()
    if (found.distribution or "").startswith("reput")
    and found.load().config_type.__name__[0] != "_"
}
SECTIONS: Final = {**CORE, **PLUGINS}
OTHERS: Final = [ClientOptions, FetchLimits, FollowConfig, Limits, ServerConfig]
SMALL: Final[dict[str, dict[str, Any]]] = {
    "commitlog": {"file_size": 1 << 16},
    "consumequeue": {"units_per_file": 20},
    "index": {"slots_per_file": 10, "items_per_file": 20},
    "schedule": {"deliver": "never"},
}
EXTREMES: Final = (
    *(0, -1, 1, 2, 2**31 - 1, 2**31, 2**53, 2**62, 2**63 - 1, 2**63, 2**64, 10**30, -(10**30)),
    10**5_000,  # Python refuses to print it
    *(0.5, 1e300, math.inf, -math.inf, math.nan),
    *("", "1", "seven", b"1", None, True, [], {}),
)


def is_number(field: attrs.Attribute[Any]) -> bool:
    return str(field.type) in ("int", "float", "int | None", "float | None")


def numbers(classes: dict[str, type]) -> list[tuple[str, str]]:
    return [
        (section, field.name)
        for section, kind in sorted(classes.items())
        for field in attrs.fields(kind)
        if is_number(field)
    ]


def label(value: object) -> str:
    return f"{type(value).__name__}-{value!r:.24}" if value != 10**5_000 else "int-5001-digits"


NEEDED: Final = {"sync_replicas": {"replicas": ("127.0.0.1", 0)}}
"""Options without which another one is refused, whatever its value."""


def refusal(kind: type, section: str, option: str, value: object) -> ConfigError | None:
    try:
        build_config(kind, section, {option: value, **NEEDED.get(option, {})})
    except ConfigError as error:
        return error
    return None


def is_refused(kind: type, section: str, option: str, value: object) -> bool:
    """Whether the option is refused; if it is, the error says all that is needed."""
    error = refusal(kind, section, option, value)
    if error is not None:
        assert (error.section, error.option) == (section, option), error
        assert " from " in error.reason, f"no bounds are named: {error}"
        assert len(str(error)) < 400
    return error is not None


def uses_a_store(path: Any, section: str, option: str, value: object) -> None:
    """Open a store with the option, put, read, flush, close, and open it again."""
    config = {name: dict(options) for name, options in SMALL.items() if name in SECTIONS}
    config.setdefault(section, {})[option] = value
    plugins = sorted({"consumequeue", section} & PLUGINS.keys())
    config = {name: config[name] for name in config if name in CORE or name in plugins}
    body = b"" if option == "max_message_size" else b"body"
    for _ in range(2):
        # A clock that stands still: no check of the disk falls due on a loaded machine.
        with reput.open(
            path, plugins=plugins, config=config, threads=False, clock=lambda: 1_700_000_000_000
        ) as store:
            try:
                receipt = store.put(reput.Message("orders", body, tags="t", keys="k"))
            except DiskFullError:  # this machine's disk is fuller than the option allows
                assert option == "disk_warn_ratio"
                return
            store.put_many([reput.Message("orders", body, keys=["a", "b"])] * 3)
            assert store.wait_dispatched(60)
            store.flush()
            assert store.get(receipt.physical_offset).body == body
            assert [each.last_error for each in store.plugins()] == [None] * len(plugins)
    with reput.open(path, "r", plugins=plugins, config={}) as store:
        assert sum(map(len, store.scan())) == 8


def test_the_classes_of_all_plugins_and_of_the_core_are_looked_at():
    assert set(PLUGINS) >= {
        *("compaction", "consumequeue", "consumer", "filter"),
        *("index", "integrity", "retention", "schedule", "transaction"),
    }
    assert len(numbers(SECTIONS)) > 25
    assert sum(is_number(field) for kind in OTHERS for field in attrs.fields(kind)) > 20


def test_no_class_of_options_is_forgotten():
    looked_at = {*SECTIONS.values(), *OTHERS, MemberSettings, BrokerOptions}
    found = {
        value
        for name in (
            "reput",
            *(f"reput_{each}" for each in (*PLUGINS, "server", "client")),
        )
        for module in pkgutil.walk_packages(importlib.import_module(name).__path__, f"{name}.")
        if "testing" not in module.name and "__main__" not in module.name
        for value in vars(importlib.import_module(module.name)).values()
        if isinstance(value, type) and attrs.has(value) and value.__module__ == module.name
        if value.__name__.endswith(("Config", "Options", "Limits"))
        if any(is_number(field) for field in attrs.fields(value))
    }

    assert found <= looked_at


@pytest.mark.parametrize(("section", "option"), numbers(SECTIONS))
def test_a_number_of_a_store_is_refused_with_its_bounds_or_works(tmp_path, section, option):
    kind, refused = SECTIONS[section], []

    for number, value in enumerate(EXTREMES):
        if is_refused(kind, section, option, value):
            refused.append(label(value))
            with pytest.raises(ConfigError, match=rf"\[{section}\] {option}: "):
                reput.open(
                    tmp_path / "refused",
                    plugins=[] if section in CORE else [section],
                    config={section: {option: value}},
                )
            assert not (tmp_path / "refused").exists()
        else:
            uses_a_store(tmp_path / str(number), section, option, value)

    # Whatever the option is for, no store can do with these.
    for value in (2**64, 10**30, 10**5_000, -(10**30), math.nan, math.inf, "seven", [], True):
        assert label(value) in refused, f"{option} = {label(value)} is taken"


@pytest.mark.parametrize(
    ("kind", "option"),
    [(kind, field.name) for kind in OTHERS for field in attrs.fields(kind) if is_number(field)],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_number_of_a_peer_has_bounds(kind, option):
    refused = [label(value) for value in EXTREMES if is_refused(kind, "options", option, value)]

    for value in (-1, 2**63, 2**64, 10**30, 10**5_000, math.nan, math.inf, "1", None, [], True):
        assert label(value) in refused, f"{option} = {label(value)} is taken"


@pytest.mark.parametrize("option", ["fetch_count", "fetch_bytes", "suspend_ms", "save_interval_ms"])
@pytest.mark.parametrize("value", [0, -1, 2**31, 2**63, 10**30, math.nan, "1", True], ids=label)
def test_a_number_of_a_member_has_bounds(option, value):
    with pytest.raises((TypeError, ValueError), match="an integer from 1 to"):
        MemberSettings(group="g", member="m", selectors={}, **{option: value})


@pytest.mark.parametrize("option", ["listen", "name_server", "metrics", "register"])
@pytest.mark.parametrize("port", [-1, 65_536, 2**64, 0.5, "80", True], ids=label)
def test_a_port_has_bounds(option, port):
    value = ("127.0.0.1", port)

    with pytest.raises(ValueError, match=f"{option}: a host and a port from 0 to 65535 expected"):
        ServerConfig(**{option: (value,) if option == "register" else value})


def test_an_index_whose_parts_together_are_too_large_is_refused():
    with pytest.raises(ConfigError, match=r"\[index\] items_per_file: .* at most 2147483647"):
        build_config(
            PLUGINS["index"],
            "index",
            {"slots_per_file": 400_000_000, "items_per_file": 100_000_000},
        )
