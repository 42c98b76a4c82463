"""Templates: everything in them is escaped, for HTML and for people."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, Final
from urllib.parse import quote

import jinja2
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from reput.files import system_clock
from reput_tools.cli.kit import escape_text, format_count, format_duration, format_size
from reput_tools.cli.kit import format_timestamp as exact_time
from reput_web.server.chinese import CHINESE

_TEXT_MAX: Final = 400
_NODES_MAX: Final = 2_000
_DEPTH_MAX: Final = 40
THEMES: Final = ("auto", "light", "dark")
LANGUAGES: Final = ("en", "zh")


def page_response(request: Request, template: str, status: int = 200, **values: Any) -> Response:
    """Return a page."""
    language = language_of(request)

    def translated(text: str) -> str:
        return CHINESE.get(text, text) if language == "zh" else text

    query = request.url.query
    path = request.url.path
    performer = request.app.state.performer
    page = _environment().get_template(template)
    text = page.render(
        values,
        _=translated,
        language=language,
        theme=_cookie(request, "theme", THEMES),
        here=f"{path}?{query}" if query else path,
        json_here=f"{path}.json?{query}" if query else f"{path}.json",
        path=path,
        now=system_clock(),
        store_name=request.app.state.opened.name,
        live=request.app.state.live is not None,
        actions=() if performer is None else performer.names,
    )
    return HTMLResponse(text.encode("utf-8", "backslashreplace"), status)


def json_response(document: Any, status: int = 200) -> Response:
    """Return plain values as JSON, all in ASCII."""
    text = json.dumps(document, default=_plain, ensure_ascii=True)
    return Response(text.encode(), status, media_type="application/json")


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, set | frozenset | tuple):
        return sorted(value)
    return str(value)


def language_of(request: Request) -> str:
    """Return the language of a request: chosen, or the one that the browser prefers."""
    chosen = request.cookies.get("language")
    if chosen in LANGUAGES:
        return chosen
    accepted = request.headers.get("accept-language", "")[:200].lower()
    return "zh" if accepted.startswith("zh") else "en"


def _cookie(request: Request, name: str, known: tuple[str, ...]) -> str:
    value = request.cookies.get(name)
    return value if value in known else known[0]


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("reput_web", "templates"),
        autoescape=True,
        finalize=_finalize,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "age": _age,
        "count": format_count,
        "lines": _lines,
        "duration": lambda ms: format_duration(max(ms, 0) / 1_000),
        "block": _block,
        "chart": _chart,
        "short": _short,
        "size": format_size,
        "time": _time,
        "tree": json_tree,
    }
    environment.globals["message_link"] = message_link
    environment.globals["url"] = url
    return environment


def load_templates() -> None:
    """Compile all templates, and import what draws charts."""
    from reput_tools.doctor import html

    environment = _environment()
    for name in environment.list_templates():
        environment.get_template(name)
    assert html.columns([], labels=[], title="") == ""


def _finalize(value: Any) -> Any:
    """Show what is not printable as escapes; templates escape for HTML afterwards."""
    if value is None:
        return "–"
    if isinstance(value, str) and not isinstance(value, Markup):
        return escape_text(value)
    return value


def url(path: str, **values: Any) -> str:
    """Return an address of these pages; values that are None, empty or False are left out."""
    query = query_of(values)
    return f"{path}?{query}" if query else path


def query_of(values: dict[str, Any]) -> str:
    """Return the part of an address after the question mark."""
    shown = {name: value for name, value in values.items() if _is_given(value)}
    return "&".join(f"{name.rstrip('_')}={_quoted(value)}" for name, value in shown.items())


def message_link(found: Any, **values: Any) -> str:
    """Return the address of a message; of one in a compacted topic by its queue."""
    if found.is_compacted:
        place = {"topic": found.topic, "queue": found.queue_id, "offset": found.queue_offset}
        return url("/message", **place, **values)
    return url("/message", at=found.physical_offset, **values)


def _is_given(value: Any) -> bool:
    return value is not None and value is not False and value != ""


def _quoted(value: Any) -> str:
    text = "1" if value is True else str(value)
    return quote(text, safe="", errors="surrogatepass")


def _short(text: str | None, most: int = _TEXT_MAX) -> str | None:
    if text is None or len(text) <= most:
        return text
    return f"{text[:most]}…"


def _time(timestamp: int | None) -> Markup | str:
    if timestamp is None:
        return "–"
    text = exact_time(timestamp)
    return Markup('<time title="{}">{}</time>').format(timestamp, text)


def _age(timestamp: int | None, now: int) -> str:
    if timestamp is None:
        return "–"
    return format_duration(max(now - timestamp, 0) / 1_000)


def _chart(svg: str) -> Markup:
    """Return what `reput_tools.doctor.html` draws, which has escaped every text."""
    return Markup(svg)


def _lines(text: str) -> Markup:
    """Return what a user has typed, as the content of a field that may be changed."""
    return escape(text.replace("\0", ""))


def _block(text: str) -> Markup:
    """Return lines for ``<pre>``, with escapes for characters that do not print."""
    lines = text.split("\n")
    return Markup("\n").join(
        escape(escape_text(each.replace("\t", "    ").removesuffix("\r"))) for each in lines
    )


def json_tree(document: Any) -> Markup:
    """Return a JSON document as nested elements that fold."""
    left = [_NODES_MAX]
    return _node(None, document, left, 0)


def _node(name: str | None, value: Any, left: list[int], depth: int) -> Markup:
    left[0] -= 1
    if depth > _DEPTH_MAX:
        left[0] = -1
    label = Markup('<span class="jk">{}</span>: ').format(escape_text(name)) if name else Markup("")
    if left[0] < 0:
        return Markup('<span class="soft">…</span>')
    if isinstance(value, dict | list) and value:
        is_object = isinstance(value, dict)
        pairs = value.items() if isinstance(value, dict) else ((None, each) for each in value)
        inner = Markup("")
        for key, each in pairs:
            inner += Markup("<li>{}</li>").format(_node(key, each, left, depth + 1))
            if left[0] < 0:
                break
        opening = Markup(" open") if depth < 3 else Markup("")
        marks = ("{", "}") if is_object else ("[", "]")
        return Markup(
            '<details{}><summary>{}{}<span class="soft"> {} </span>{}</summary>'
            "<ul>{}</ul></details>"
        ).format(opening, label, marks[0], len(value), marks[1], inner)
    kind = {str: "js", bool: "jb", int: "jn", float: "jn"}.get(type(value), "jb")
    text = json.dumps(value, ensure_ascii=False)
    return label + Markup('<span class="{}">{}</span>').format(kind, escape_text(text))
