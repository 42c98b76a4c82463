"""`application`: the pages of one store as an ASGI application."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio.to_thread
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from reput.errors import ReputError
from reput_web.errors import WebError
from reput_web.readmodel.livesource import KeptFigures
from reput_web.readmodel.openedstore import OpenedStore
from reput_web.server import actionpages, doctorpage, downloads, livepages, sqlpage
from reput_web.server.confirmations import Confirmations
from reput_web.server.jobs import Jobs
from reput_web.server.options import WebOptions
from reput_web.server.pages import PAGES, Page, Redirect
from reput_web.server.parameters import Parameters
from reput_web.server.rendering import (
    LANGUAGES,
    THEMES,
    json_response,
    load_templates,
    page_response,
)
from reput_web.server.security import Application, SecurityLayer
from reput_web.server.workers import Workers

if TYPE_CHECKING:
    from starlette.requests import Request

    from reput_web.actions.performing import Performer
    from reput_web.readmodel.livesource import LiveSource
    from reput_web.readmodel.workbudget import WorkBudget

_STATIC = Path(__file__).resolve().parent.parent / "static"
_YEAR_S = 31_536_000


def application(
    path: str | os.PathLike[str],
    options: WebOptions | None = None,
    *,
    live: LiveSource | None = None,
    performer: Performer | None = None,
) -> Application:
    """Return the pages of the store at ``path`` as an ASGI application.

    The store is opened for reading at the first request, and closed with the application's
    lifespan. Another process may write it meanwhile.

    Args:
        path: the store's directory.
        options: how the pages are served.
        live: the process that serves or follows the store; None if it is not known.
        performer: what changes the store, if the options allow that; when left out, the store is
            opened for each change.
    """
    chosen = options or WebOptions()
    opened = OpenedStore(os.fspath(path), chosen.follow_links)
    if performer is None and chosen.can_write:
        from reput_web.actions.performing import OpeningPerformer

        performer = OpeningPerformer(opened.root, chosen.follow_links)
    jobs = Jobs()

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await anyio.to_thread.run_sync(_prepare, opened)  # the first page need not wait for it
        yield
        jobs.close()
        opened.close()

    routes: list[Any] = [Route("/", _home), Route("/settings", _settings)]
    for page in PAGES:
        addresses = page.path, f"{page.path}.json"
        routes += [Route(address, _endpoint(page), methods=["GET"]) for address in addresses]
    routes += [
        Route("/doctor", doctorpage.show, methods=["GET"]),
        Route("/doctor.json", doctorpage.show, methods=["GET"]),
        Route("/doctor", doctorpage.act, methods=["POST"]),
        *(Route(f"/sql{end}", sqlpage.show, methods=["GET"]) for end in ("", *sqlpage.FORMS)),
        Route("/body", downloads.body, methods=["GET"]),
        *actionpages.ROUTES,
        *livepages.ROUTES,
        Mount("/static", StaticFiles(directory=_STATIC)),
    ]
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=_HANDLERS)
    app.state.opened = opened
    app.state.jobs = jobs
    app.state.queries = Workers(1, chosen.query_seconds)
    app.state.options = chosen
    app.state.actions = Workers(2, chosen.request_seconds)
    app.state.confirmations = Confirmations()
    app.state.live = None if live is None else KeptFigures(live)
    app.state.performer = performer if chosen.can_write else None
    app.state.workers = Workers(chosen.workers, chosen.request_seconds)
    return SecurityLayer(app, chosen)


def _prepare(opened: OpenedStore) -> None:
    """Open the store, and load what pages need; a failure is that of the first request."""
    load_templates()
    with contextlib.suppress(ReputError, OSError):
        opened.queues()


def _endpoint(page: Page) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        workers: Workers = request.app.state.workers
        return await workers.run(request, partial(_answer, request, page))

    return endpoint


def _answer(request: Request, page: Page, budget: WorkBudget) -> Response:
    """Read and render a page, on a worker's thread."""
    is_json = request.url.path.endswith(".json")
    try:
        shown = page.read(request.app.state.opened, Parameters(request.query_params), budget)
        if is_json:
            return json_response(shown.document)
        values = livepages.with_live_figures(request, shown.values)
        return page_response(request, page.template, **values)
    except Redirect as found:
        return RedirectResponse(found.address, 303)
    except WebError as error:
        return error_response(request, str(error.args[0]), error.status)
    except (ReputError, OSError) as error:
        return error_response(request, str(error), 503)


def error_response(request: Request, text: str, status: int) -> Response:
    """Return an error as a page, or as JSON where that was asked for."""
    if request.url.path.endswith(".json"):
        return json_response({"error": text}, status)
    return page_response(request, "error.html", status, text=text, status_code=status)


async def _home(request: Request) -> Response:
    return RedirectResponse("/overview", 307)


async def _no_page(request: Request, error: Exception) -> Response:
    return error_response(request, "This page does not exist.", 404)


async def _cut_body(request: Request, error: Exception) -> Response:
    # The security layer ends a body that is too long. Otherwise the client has left.
    return error_response(request, "The form is too long.", 413)


_HANDLERS: Final = {404: _no_page, ClientDisconnect: _cut_body}


async def _settings(request: Request) -> Response:
    """Remember a theme or a language, and go back."""
    back = request.query_params.get("back", "/")[:4_096]
    is_own = back.startswith("/") and not back.startswith(("//", "/\\"))
    response = RedirectResponse(back if is_own else "/", 303)
    for name, known in (("theme", THEMES), ("language", LANGUAGES)):
        value = request.query_params.get(name, "")
        if value in known:
            response.set_cookie(name, value, max_age=_YEAR_S, httponly=True, samesite="strict")
    return response
