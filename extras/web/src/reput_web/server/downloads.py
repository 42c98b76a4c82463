"""Bodies as files: a browser saves them, and never shows them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from starlette.responses import PlainTextResponse, Response

from reput.errors import ReputError
from reput_web.errors import WebError
from reput_web.readmodel.message import message_in_queue
from reput_web.readmodel.messagelist import body_of
from reput_web.server.parameters import Parameters

if TYPE_CHECKING:
    from starlette.requests import Request

    from reput_web.readmodel.workbudget import WorkBudget

_UNPACKED_MAX: Final = 64 << 20


async def body(request: Request) -> Response:
    """Answer with the body of a message, as stored or unpacked."""
    response: Response = await request.app.state.workers.run(request, partial(_body, request))
    return response


def _body(request: Request, budget: WorkBudget) -> Response:
    given = Parameters(request.query_params)
    try:
        opened, offset = request.app.state.opened, given.whole("at")
        if offset is None and given.text("topic") is not None:
            place = given.required("topic"), given.whole("queue") or 0, given.whole("offset") or 0
            view = message_in_queue(opened, *place)
        else:
            view = opened.message(-1 if offset is None else offset)
        data = view.body if given.flag("stored") else body_of(view, _UNPACKED_MAX)
    except WebError as error:
        return PlainTextResponse(str(error.args[0]), error.status)
    except (ReputError, ValueError) as error:
        return PlainTextResponse(str(error), 404)
    name = f"message-{view.physical_offset}.bin"
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(data, media_type="application/octet-stream", headers=headers)
