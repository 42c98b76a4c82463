"""``reput metrics``: prints the metrics of a store, or serves them to Prometheus."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from reput_tools.cli.kit import ExitCode, Failure, Seconds, json_option, path_argument, with_debug

if TYPE_CHECKING:
    from reput_tools.metrics.sampler import Sample, Sampler

_EXAMPLES = """\b
Examples:
  reput metrics STORE
  reput metrics STORE --listen 127.0.0.1:9464
  reput metrics STORE --json | jq '.metrics[] | select(.name == "reput_plugin_lag_bytes")'
"""


def _address(
    context: click.Context, option: click.Parameter, value: str | None
) -> tuple[str, int] | None:
    if value is None:
        return None
    host, colon, port = value.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 <= int(port) <= 65_535:
        text = f"{value!r} is not an address such as 127.0.0.1:9464"
        raise click.BadParameter(text, context, option)
    return host.removeprefix("[").removesuffix("]"), int(port)


_JSON = {
    "path": "the store's directory",
    "metrics[].name": "name of a metric",
    "metrics[].kind": "`gauge` or `counter`",
    "metrics[].labels": "an object with its labels",
    "metrics[].value": "its value",
}


@click.command(short_help="Print a store's metrics for Prometheus.", epilog=_EXAMPLES)
@path_argument
@click.option(
    "--listen",
    metavar="HOST:PORT",
    callback=_address,
    help="Serve the metrics at http://HOST:PORT/metrics until Ctrl-C.",
)
@click.option(
    "--max-age",
    metavar="SECONDS",
    type=Seconds(min=0),
    default=5.0,
    show_default=True,
    help="With --listen: read the store at most once in this time.",
)
@json_option("one document", _JSON)
@with_debug
def metrics(path: str, listen: tuple[str, int] | None, max_age: float, as_json: bool) -> None:
    """Print the metrics of the store at PATH in the text form that Prometheus reads.

    Another process may write the store meanwhile. If another program uses the port of --listen, the
    command ends with code 5. The command does not show what only that process
    knows, such as how long it waits for the disk: see `reput_tools.metrics.collector` for programs.
    """
    from reput_tools.cli.kit import check_store, follows_links, warn
    from reput_tools.metrics.sampler import Sampler, of_path

    if listen is not None and as_json:
        raise click.UsageError("--listen and --json exclude each other; leave one out")
    if not as_json:
        _check_client()
    check_store(path)
    told: set[str] = set()

    def tell(problem: str) -> None:
        if problem not in told:  # once, however often the store is read
            told.add(problem)
            warn(problem)

    read = partial(of_path, path, follow_links=follows_links(), tell=tell)
    sampler = Sampler(read, max_age)
    found = sampler.read_now()  # an error appears before anything is served
    if listen is not None:
        _serve(sampler, *listen)
    elif as_json:
        from reput_tools.cli.kit import print_json

        print_json({"path": path, "metrics": [_document(each) for each in found]})
    else:
        from reput_tools.metrics.prometheus import text_of

        click.echo(text_of(sampler), nl=False)


def _check_client() -> None:
    from importlib.util import find_spec

    if find_spec("prometheus_client") is None:
        from reput.installhints import extra_needed

        text = extra_needed("reput metrics", "prometheus_client", "tools", "prometheus")
        raise Failure(f"{text}; --json works without it", ExitCode.UNAVAILABLE)


def _serve(sampler: Sampler, host: str, port: int) -> None:
    from prometheus_client import start_http_server

    from reput_tools.metrics.prometheus import registry_of

    try:
        server, thread = start_http_server(port, host, registry_of(sampler))
    except OSError as error:
        text = f"{host}:{port}: {error.strerror or error}; choose another address"
        raise Failure(text, ExitCode.UNAVAILABLE) from None
    shown = f"[{host}]" if ":" in host else host
    click.echo(f"Serving http://{shown}:{server.server_port}/metrics until Ctrl-C.", err=True)
    try:
        thread.join()
    finally:
        server.shutdown()
        server.server_close()


def _document(sample: Sample) -> dict[str, Any]:
    from reput_tools.metrics.metriclist import METRICS

    metric = METRICS[sample.name]
    labels = dict(zip(metric.labels, sample.labels, strict=True))
    return {"name": sample.name, "kind": metric.kind, "labels": labels, "value": sample.value}
