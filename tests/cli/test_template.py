from __future__ import annotations

from pathlib import Path

import pytest

import reput
from reput_tools.cli.messages.formattemplate import Template

CONFIG = {"commitlog": {"file_size": 1 << 16}}


@pytest.fixture
def message(tmp_path: Path) -> reput.MessageView:
    with reput.open(
        tmp_path / "store", plugins=[], config=CONFIG, clock=lambda: 1_700_000_000_123
    ) as store:
        store.put(
            reput.Message(
                "orders",
                "naïve \x1b[1m".encode(),
                queue_id=3,
                tags="paid",
                keys=["k1", "k2"],
                properties={"region": "eu\x07", "UNIQ_KEY": "U1"},
                born_timestamp=1_600_000_000_000,
            )
        )
        return store.get(0)


@pytest.mark.parametrize(
    ("template", "line"),
    [
        ("%t/%q@%o", "orders/3@7"),
        ("%p %i", "0 7F00000100002A9F0000000000000000"),
        ("%s", "naïve \\x1b[1m"),
        ("%S", "11"),
        ("%T|%k|%u", "paid|k1 k2|U1"),
        ("%{region}|%{missing}|", "eu\\x07||"),
        ("%h", "KEYS=k1 k2,TAGS=paid,region=eu\\x07,UNIQ_KEY=U1"),
        ("%d %D", "2023-11-14 22:13:20.123 1700000000123"),
        ("%b %B", "2020-09-13 12:26:40.000 1600000000000"),
        (r"100%%\t\x41\\", "100%\tA\\"),
    ],
)
def test_each_field_prints_its_part(message: reput.MessageView, template: str, line: str) -> None:
    assert Template(template).render(message, 7) == line


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("hex", "6e61c3af7665201b5b316d"),
        ("base64", "bmHDr3ZlIBtbMW0="),
        ("none", ""),
    ],
)
def test_the_body_has_the_form_that_was_asked_for(
    message: reput.MessageView, form: str, text: str
) -> None:
    assert Template("%s").render(message, 0, form) == text


@pytest.mark.parametrize("template", ["%z", "100%", r"\y", r"\x4", "\\"])
def test_an_unknown_field_or_escape_is_refused_with_the_known_ones(template: str) -> None:
    with pytest.raises(ValueError, match="known: "):
        Template(template)
