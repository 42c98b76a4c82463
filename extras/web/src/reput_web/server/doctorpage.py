"""The page Doctor: checks the store when somebody asks for it, and lists the findings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.responses import RedirectResponse, Response

from reput_web.errors import BusyError
from reput_web.readmodel.filebytes import can_be_shown
from reput_web.server.rendering import json_response, page_response, url

if TYPE_CHECKING:
    from starlette.requests import Request

    from reput_tools.doctor import Finding, Report
    from reput_web.readmodel.openedstore import OpenedStore
    from reput_web.server.jobs import Job, Jobs, Progress

_KIND = "verify"
_PLAN = "repair plan"


async def show(request: Request) -> Response:
    """Show the last check, or how far the one under way is."""
    jobs: Jobs = request.app.state.jobs
    job, planned = jobs.last.get(_KIND), jobs.last.get(_PLAN)
    if request.url.path.endswith(".json"):
        return json_response(_document(job) | {"plan": _plan_document(planned)})
    running = next((each for each in (job, planned) if each and not each.is_over), None)
    report: Report | None = None if job is None else job.result
    listed = () if report is None else report.findings
    findings = [(each, _link(each), _bytes_link(each)) for each in listed]
    return page_response(
        request,
        "doctor.html",
        job=job,
        running=running,
        planned=planned,
        plan=None if planned is None else planned.result,
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
        jobs.stop(_PLAN)
        return RedirectResponse("/doctor", 303)
    try:
        if "plan=1" in fields:
            jobs.start(_PLAN, partial(_plan, opened.root, opened.follow_links))
        else:
            work = partial(_verify, opened.root, opened.follow_links, "deep=1" in fields)
            jobs.start(_KIND, work)
    except BusyError:
        return RedirectResponse("/doctor?busy=1", 303)
    return RedirectResponse("/doctor", 303)


def _verify(root: str, follow_links: bool, deep: bool, progress: Progress) -> Report:
    from reput_tools.doctor import verify

    return verify(root, deep=deep, jobs=1, progress=progress, follow_links=follow_links)


def _plan(root: str, follow_links: bool, progress: Progress) -> dict[str, Any]:
    """Return what ``reput repair --dry-run`` shows, without the comparison of derived files."""
    from reput_tools.doctor.repair.diskspace import needed_space
    from reput_tools.doctor.repair.repairjson import plan_document
    from reput_tools.doctor.repair.repairrun import look_and_plan

    def step(name: str) -> Callable[[int, int], None]:
        return partial(progress, name)

    with look_and_plan(root, follow_links=follow_links, step=step) as plan:
        needed_size = needed_space(plan, has_log=False)
        return plan_document(plan) | {"needed_size": needed_size, "was_compared": False}


def _verdict(report: Report) -> str:
    from reput_tools.doctor.verdict import verdict_of

    return verdict_of(report)


def _link(finding: Finding) -> str | None:
    """Return the address of the messages from the place of a finding in the log."""
    if finding.physical_offset is None:
        return None
    return url("/messages", order="oldest", at=max(finding.physical_offset - 1, 0))


def _bytes_link(finding: Finding) -> str | None:
    """Return the address of the bytes that a finding is about."""
    if finding.position is None or not can_be_shown(finding.file):
        return None
    return url("/bytes", file=finding.file, at=finding.position, size=finding.size)


def _plan_document(job: Job | None) -> dict[str, Any] | None:
    if job is None:
        return None
    state = "over" if job.is_over else "running"
    return {"state": state, "error": job.error, "repair": job.result}


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
