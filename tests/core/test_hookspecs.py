"""The hooks keep their form, and the page about them says what they are."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from reput.plugin import hookspecs, hooktable

PAGE = Path(__file__).resolve().parents[2] / "docs" / "hooks.md"
HOOKS = {name: hook for name, hook in vars(hookspecs).items() if name.startswith("reput_")}
FIRST_DECIDES = "The first answer that is not None decides"


def sections():
    """Text of the page by heading, in its order; only sections about a hook."""
    parts = re.split(r"^### `(\w+)\(([^)`]*)\)`$", PAGE.read_text(encoding="utf-8"), flags=re.M)
    names, arguments, texts = parts[1::3], parts[2::3], parts[3::3]
    return {
        name: (tuple(filter(None, given.split(", "))), re.split(r"^#+ ", text, flags=re.M)[0])
        for name, given, text in zip(names, arguments, texts, strict=True)
    }


def options_of(hook):
    return getattr(hook, f"{hookspecs.PROJECT}_spec")


def test_the_life_of_a_plugin_is_this():
    assert list(HOOKS) == [
        "reput_open",
        "reput_recover",
        "reput_queue_offsets",
        "reput_ready",
        "reput_put",
        "reput_enrich",
        "reput_dispatch",
        "reput_arrive",
        "reput_flush",
        "reput_work",
        "reput_filter",
        "reput_read",
        "reput_offset_by_time",
        "reput_query",
        "reput_queues",
        "reput_trim",
        "reput_hold",
        "reput_report",
        "reput_close",
    ]


def test_every_hook_has_its_section_in_the_same_order():
    assert list(sections()) == list(HOOKS)


def test_headings_show_the_arguments():
    signatures = {name: tuple(inspect.signature(hook).parameters) for name, hook in HOOKS.items()}

    assert {name: arguments for name, (arguments, _) in sections().items()} == signatures


@pytest.mark.parametrize("name", HOOKS)
def test_sections_explain_every_argument(name):
    arguments, text = sections()[name]

    assert [argument for argument in arguments if f"**`{argument}`**" not in text] == []


@pytest.mark.parametrize("name", HOOKS)
def test_sections_say_where_the_first_answer_decides(name):
    _, text = sections()[name]

    assert (FIRST_DECIDES in " ".join(text.split())) == bool(options_of(HOOKS[name])["firstresult"])


@pytest.mark.parametrize("name", HOOKS)
def test_sections_say_what_to_return(name):
    _, text = sections()[name]

    assert ("* **Return**" in text) == (HOOKS[name].__annotations__["return"] != "None")


@pytest.mark.parametrize("name", HOOKS)
def test_hooks_are_marked_annotated_and_documented(name):
    hook = HOOKS[name]
    signature = inspect.signature(hook)

    assert options_of(hook) is not None
    assert signature.return_annotation is not inspect.Signature.empty
    assert all(given.annotation is not given.empty for given in signature.parameters.values())
    assert all(given.default is given.empty for given in signature.parameters.values())
    documented = re.findall(r"^    (\w+): ", inspect.getdoc(hook), flags=re.M)
    assert tuple(documented) == tuple(signature.parameters)


def test_the_one_marker_is_the_public_one():
    import reput

    assert reput.hookimpl is hookspecs.hookimpl

    class Plugin:
        @reput.hookimpl
        def reput_flush(self): ...

    assert hasattr(Plugin.reput_flush, f"{hookspecs.PROJECT}_impl")


def test_the_host_knows_every_hook_as_an_attribute_of_its_name():
    assert tuple(name.removeprefix("reput_") for name in HOOKS) == hooktable.HOOK_NAMES
