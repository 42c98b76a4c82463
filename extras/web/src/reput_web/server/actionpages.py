"""The forms that change the store: a form, a question that says what will happen, and the log."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

import attrs
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from reput.errors import ReputError
from reput_web.actions.actionlog import ActionLog
from reput_web.actions.performing import ACTIONS
from reput_web.errors import BadRequestError, NotThereError, WebError
from reput_web.server.rendering import json_response, page_response, url

if TYPE_CHECKING:
    from starlette.requests import Request

    from reput_web.actions.action import Action
    from reput_web.actions.performing import Performer
    from reput_web.readmodel.openedstore import OpenedStore
    from reput_web.readmodel.workbudget import WorkBudget
    from reput_web.server.confirmations import Confirmations
    from reput_web.server.workers import Workers

_FIELDS_MAX: Final = 32
_FORM: Final = b"application/x-www-form-urlencoded"


async def _show(request: Request) -> Response:
    """Show an empty form, or one with values of the address."""
    given = {name: value[:4_096] for name, value in request.query_params.items()}
    return await _answered(request, lambda: _form(request, _kind(request), given))


async def _post(request: Request) -> Response:
    """Ask whether to do what a form says, or do what was confirmed."""
    body = await request.body()  # `_bounded` limits it
    return await _answered(request, partial(_posted, request, body))


async def _answered(request: Request, work: Callable[[], Response]) -> Response:
    workers: Workers = request.app.state.actions

    def run(budget: WorkBudget) -> Response:
        try:
            return work()
        except WebError as error:
            return _failed(request, str(error.args[0]), error.status)
        except (ReputError, OSError) as error:
            return _failed(request, str(error), 503)

    return await workers.run(request, run)


def _failed(request: Request, text: str, status: int) -> Response:
    return page_response(request, "error.html", status, text=text, status_code=status)


def _kind(request: Request) -> type[Action]:
    name = request.path_params["name"]
    performer: Performer | None = request.app.state.performer
    if performer is None or name not in performer.names:
        raise NotThereError("This server offers no such action.")
    return ACTIONS[name]


def _form(request: Request, kind: type[Action], given: dict[str, str], error: str = "") -> Response:
    return page_response(
        request,
        "action.html",
        400 if error else 200,
        kind=kind,
        given=given,
        token=_confirmations(request).token,
        error=error,
        plan=None,
        word="",
    )


def _posted(request: Request, body: bytes) -> Response:
    kind = _kind(request)
    given = _values(request, body)
    _confirmations(request).check(given.pop("token", ""))
    word = given.pop("confirmed", "")
    if word:
        return _confirmed(request, kind, word)
    opened: OpenedStore = request.app.state.opened
    try:
        action = kind.of(given)
        plan = action.plan(opened)
    except BadRequestError as error:
        return _form(request, kind, given, str(error.args[0]))
    return page_response(
        request,
        "action.html",
        kind=kind,
        given=action.values,
        token=_confirmations(request).token,
        error="",
        plan=plan,
        word=_confirmations(request).ask(attrs.evolve(action, offsets=plan.offsets)),
    )


def _confirmed(request: Request, kind: type[Action], word: str) -> Response:
    action = _confirmations(request).take(word)
    if not isinstance(action, kind):
        raise BadRequestError("The confirmation is of another action.")
    performer: Performer = request.app.state.performer
    performer.perform(action, _actor(request))
    return RedirectResponse(url("/actions", done=1), 303)


def _values(request: Request, body: bytes) -> dict[str, str]:
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if kind.encode("latin-1") != _FORM:
        raise BadRequestError("A form in application/x-www-form-urlencoded is expected.")
    try:
        found = parse_qs(
            body.decode("ascii"),
            keep_blank_values=True,
            max_num_fields=_FIELDS_MAX,
            errors="strict",
        )
    except ValueError:
        raise BadRequestError("The form cannot be read.") from None
    return {name: values[-1] for name, values in found.items()}


def _actor(request: Request) -> str:
    """Return who asks: the address, and the user name of a browser that gives a password."""
    host = "" if request.client is None else request.client.host
    kind, _, value = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "basic":
        return host
    try:
        user = base64.b64decode(value, validate=True).decode().partition(":")[0]
    except (binascii.Error, ValueError):
        return host
    return f"{user}@{host}" if user else host


def _confirmations(request: Request) -> Confirmations:
    found: Confirmations = request.app.state.confirmations
    return found


async def _log(request: Request) -> Response:
    """Show the last actions."""
    return await _answered(request, partial(_logged, request))


def _logged(request: Request) -> Response:
    opened: OpenedStore = request.app.state.opened
    found = ActionLog(opened.root, opened.follow_links).read()
    if request.url.path.endswith(".json"):
        return json_response({"actions": [attrs.asdict(each) for each in found]})
    performer: Performer | None = request.app.state.performer
    names = () if performer is None else performer.names
    values: dict[str, Any] = {
        "entries": found,
        "kinds": [ACTIONS[name] for name in names],
        "titles": {name: kind.title for name, kind in ACTIONS.items()},
        "done": bool(found) and request.query_params.get("done") == "1",
    }
    return page_response(request, "actions.html", **values)


ROUTES: Final = (
    Route("/action/{name}", _show, methods=["GET"]),
    Route("/action/{name}", _post, methods=["POST"]),
    Route("/actions", _log, methods=["GET"]),
    Route("/actions.json", _log, methods=["GET"]),
)
