"""The page Doctor: checks the store when somebody asks for it, and lists the findings."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.responses import RedirectResponse, Response

from reput_web.errors import BusyError
from reput_web.server.rendering import json_response, page_response, url

if TYPE_CHECKING:
    from starlette.requests import Request

    from reput_tools.doctor import Finding, Report
    from reput_web.readmodel.openedstore import OpenedStore
    from reput_web.server.jobs import Job, Jobs, Progress

__all__ = ["act", "show"]

_KIND = "verify"


async def show(request: Request) -> Response:
    """Show the last check, or how far the one under way is."""
    jobs: Jobs = request.app.state.jobs
    job = jobs.last.get(_KIND)
    if request.url.path.endswith(".json"):
        return json_response(_document(job))
    report: Report | None = None if job is None else job.result
    findings = [] if report is None else [(each, _link(each)) for each in report.findings]
    return page_response(
        request,
        "doctor.html",
        job=job,
        report=report,
        verdict="" if report is None else _verdict(report),
        findings=findings[:500],
        finding_count=len(findings),
        busy=request.query_params.get("busy") == "1",
    )


async def act(request: Request) -> Response:
    """Start a check, or stop the one under way."""
    jobs: Jobs = request.app.state.jobs
    opened: OpenedStore = request.app.state.opened
    fields = (await request.body()).decode("latin-1").split("&")
    if "stop=1" in fields:
        jobs.stop(_KIND)
        return RedirectResponse("/doctor", 303)
    try:
        jobs.start(_KIND, partial(_verify, opened.root, opened.follow_links, "deep=1" in fields))
    except BusyError:
        return RedirectResponse("/doctor?busy=1", 303)
    return RedirectResponse("/doctor", 303)


def _verify(root: str, follow_links: bool, deep: bool, progress: Progress) -> Report:
    from reput_tools.doctor import verify

    return verify(root, deep=deep, jobs=1, progress=progress, follow_links=follow_links)


def _verdict(report: Report) -> str:
    from reput_tools.doctor.verdict import verdict_of

    return verdict_of(report)


def _link(finding: Finding) -> str | None:
    """Return the address of the messages from the place of a finding in the log."""
    if finding.physical_offset is None:
        return None
    return url("/messages", order="oldest", at=max(finding.physical_offset - 1, 0))


def _document(job: Job | None) -> dict[str, Any]:
    if job is None:
        return {"state": "never run", "report": None}
    state = "over" if job.is_over else "running"
    return {
        "state": state,
        "step": job.step,
        "done": job.done,
        "total": job.total,
        "error": job.error,
        "report": None if job.result is None else job.result.as_json(),
    }
