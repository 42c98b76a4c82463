"""The page Server, and what it has for other pages."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import attrs
from starlette.responses import Response
from starlette.routing import Route

from reput_web.readmodel.groups import GroupRow
from reput_web.readmodel.livestate import live_plugins, live_state
from reput_web.readmodel.overview import PluginRow
from reput_web.server.rendering import json_response, page_response

if TYPE_CHECKING:
    from starlette.requests import Request

    from reput_web.readmodel.livesource import KeptFigures
    from reput_web.readmodel.workbudget import WorkBudget
    from reput_web.server.workers import Workers

_LIVE: Final = frozenset({"group", "groups", "overview"})
"""Values of the pages that show live figures."""
_NO_SERVER: Final = "No process that serves or follows the store runs these pages."
_NO_ANSWER: Final = "The process that serves the store does not answer. Try again."


async def _show(request: Request) -> Response:
    workers: Workers = request.app.state.workers
    return await workers.run(request, partial(_answer, request))


def _answer(request: Request, budget: WorkBudget) -> Response:
    is_json = request.url.path.endswith(".json")
    live: KeptFigures | None = request.app.state.live
    found = None if live is None else live.figures()
    if found is None:
        status, text = (404, _NO_SERVER) if live is None else (503, _NO_ANSWER)
        if is_json:
            return json_response({"error": text}, status)
        return page_response(request, "error.html", status, text=text, status_code=status)
    if is_json:
        return json_response(found)
    return page_response(request, "server.html", state=live_state(found))


def with_live_figures(request: Request, values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a page, with what the process that writes the store knows better."""
    if not _LIVE.intersection(values):
        return values
    live: KeptFigures | None = request.app.state.live
    found = None if live is None else live.figures()
    if found is None:
        return {**values, "live_state": None}
    values = {**values, "live_state": live_state(found)}
    if "overview" in values and (plugins := live_plugins(found)):
        rows = [
            PluginRow(plugin=name, state=state, lag_size=lag, last_error=error)
            for name, state, lag, error in plugins
        ]
        values["overview"] = attrs.evolve(values["overview"], plugins=tuple(rows))
    by_group = found.get("groups")
    if isinstance(by_group, dict):
        if isinstance(values.get("group"), GroupRow):
            values["group"] = _live_group(values["group"], by_group)
        if isinstance(values.get("groups"), list):
            values["groups"] = [_live_group(each, by_group) for each in values["groups"]]
    return values


def _live_group(row: GroupRow, by_group: dict[str, Any]) -> GroupRow:
    found = by_group.get(row.group)
    if not isinstance(found, dict):
        return row
    return attrs.evolve(
        row,
        member_count=found.get("members", row.member_count),
        out_count=found.get("out_count", row.out_count),
        out_since=found.get("out_since", row.out_since),
        rate=found.get("rate"),
        is_mixed=bool(found.get("is_mixed")),
    )


ROUTES: Final = (
    Route("/server", _show, methods=["GET"]),
    Route("/server.json", _show, methods=["GET"]),
)
