"""The page of queries in SQL; its rows are also there as JSON, CSV and Parquet."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import PlainTextResponse, Response

from reput.errors import ReputError
from reput_web.errors import WebError
from reput_web.readmodel import sqlquery
from reput_web.server.parameters import Parameters
from reput_web.server.rendering import json_response, page_response, url

if TYPE_CHECKING:
    from starlette.requests import Request

    from reput_web.readmodel.workbudget import WorkBudget
    from reput_web.server.options import WebOptions

FORMS: Final = (".json", ".csv", ".parquet")
_QUERY_MAX: Final = 6_000
_SHOWN: Final = 500
_BARS_MAX: Final = 120
_PARQUET: Final = "application/vnd.apache.parquet"
_EXAMPLES: Final = (
    "SELECT topic, count(*) AS messages FROM messages GROUP BY topic ORDER BY 2 DESC",
    "SELECT date_trunc('hour', store_timestamp) AS hour, count(*) FROM messages GROUP BY ALL",
    "SELECT tags, avg(size) FROM messages GROUP BY tags",
    "SELECT * FROM messages ORDER BY physical_offset DESC LIMIT 20",
)


async def show(request: Request) -> Response:
    """Run the query of a request, and show its rows."""
    response: Response = await request.app.state.queries.run(request, partial(_answer, request))
    return response


def _answer(request: Request, budget: WorkBudget) -> Response:
    form = request.url.path.removeprefix("/sql")
    options: WebOptions = request.app.state.options
    text = ""
    try:
        text = Parameters(request.query_params).text("q", _QUERY_MAX) or ""
        if not text.strip() and not form:
            return _page(request, "", None, None)
        limits: dict[str, Any] = {"memory_size": options.query_memory_size}
        if form not in FORMS[1:]:
            limits["count"] = _SHOWN
        answer = sqlquery.ask(request.app.state.opened.root, text, budget, **limits)
    except WebError as error:
        return _failure(request, form, text, str(error.args[0]), error.status)
    except (ReputError, OSError) as error:
        return _failure(request, form, text, str(error), 503)
    if form == ".json":
        rows = [[sqlquery.plain(value) for value in row] for row in answer.rows]
        found = {"columns": list(answer.names), "rows": rows, "has_more": answer.has_more}
        return json_response(found | {"damage_count": answer.damage_count})
    if form == ".csv":
        return _file(sqlquery.as_csv(answer), "query.csv", "text/csv; charset=utf-8")
    if form == ".parquet":
        return _file(sqlquery.as_parquet(answer), "query.parquet", _PARQUET)
    return _page(request, text, answer, None)


def _failure(request: Request, form: str, text: str, reason: str, status: int) -> Response:
    if form == ".json":
        return json_response({"error": reason}, status)
    if form:
        return PlainTextResponse(reason, status)
    return _page(request, text, None, reason, status)


def _file(data: bytes, name: str, kind: str) -> Response:
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(data, media_type=kind, headers=headers)


def _page(
    request: Request,
    text: str,
    answer: sqlquery.Answer | None,
    reason: str | None,
    status: int = 200,
) -> Response:
    rows = [] if answer is None else [[sqlquery.shown(each) for each in row] for row in answer.rows]
    numbers: list[bool] = []
    if answer is not None:
        columns = list(zip(*answer.rows, strict=True)) or [() for _ in answer.names]
        numbers = [all(map(_is_number, column)) for column in columns]
    return page_response(
        request,
        "sql.html",
        status,
        text=text,
        answer=answer,
        rows=rows,
        numbers=numbers,
        reason=reason,
        chart="" if answer is None else _chart(answer),
        columns=sqlquery.columns_of_messages(),
        examples=[(each, url("/sql", q=each)) for each in _EXAMPLES],
        files=[(each[1:].upper(), url(f"/sql{each}", q=text)) for each in FORMS[1:]],
        seconds=request.app.state.options.query_seconds,
    )


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _chart(answer: sqlquery.Answer) -> str:
    """Return two columns as a chart, the second of which has numbers from zero on."""
    if len(answer.names) != 2 or not 1 < len(answer.rows) <= _BARS_MAX:
        return ""
    values = [row[1] for row in answer.rows]
    if not all(_is_number(value) and (value or 0) >= 0 for value in values):
        return ""
    from reput_tools.doctor.html import columns

    return columns(
        [int(value or 0) for value in values],
        labels=[sqlquery.shown(row[0]) or "NULL" for row in answer.rows],
        title=answer.names[1],
    )
