"""Reads the options of `reput serve`: addresses, files of options, of keys and of certificates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from reput.installhints import extra_needed
from reput_tools.cli.kit import ExitCode, Failure

if TYPE_CHECKING:
    from reput_client.remoting import Address
    from reput_server.config import Limits, TlsConfig, TlsMode

_SECTION: Final = "server"
_LIMITS: Final = "limits"


def read_address(
    context: click.Context, option: click.Parameter, value: str | None
) -> Address | None:
    """Return an address; None for ``none``."""
    from reput_client.remoting import AddressError, parse_address

    if value is None or value == "none":
        return None
    try:
        return parse_address(value, least_port=0)
    except AddressError as error:
        raise click.BadParameter(str(error), context, option) from None


def read_addresses(
    context: click.Context, option: click.Parameter, value: str | None
) -> tuple[Address, ...]:
    """Return the addresses of a text with ``;`` between them."""
    parts = [] if value is None else value.replace(",", ";").split(";")
    found = [read_address(context, option, each.strip()) for each in parts if each.strip()]
    return tuple(each for each in found if each is not None)


def read_grpc_address(
    context: click.Context, option: click.Parameter, value: str | None
) -> Address | None:
    """Return an address, if what serves gRPC is installed; better said before a store is made."""
    from reput_server.errors import ServerError
    from reput_server.protocolservice import service_class

    address = read_address(context, option, value)
    if address is not None:
        try:
            service_class("grpc")
        except ServerError as error:
            raise Failure(f"--grpc: {error}", ExitCode.UNAVAILABLE) from None
    return address


def read_metrics_address(
    context: click.Context, option: click.Parameter, value: str | None
) -> Address | None:
    """Return an address, if what makes metrics is installed; better said before a store is made."""
    import importlib.util

    address = read_address(context, option, value)
    if address is not None and importlib.util.find_spec("prometheus_client") is None:
        text = extra_needed("--metrics", "prometheus_client", "tools", "prometheus")
        raise Failure(text, ExitCode.UNAVAILABLE)
    return address


# --------------------------------------------------------------------------- a file of options


def read_config(
    context: click.Context, option: click.Parameter, value: str | None
) -> dict[str, Any]:
    """Return the sections of a file; its section ``server`` stands in for what is not given."""
    if value is None:
        return {}
    found = _toml(value)
    strange = [name for name, section in found.items() if not isinstance(section, dict)]
    if strange:
        raise Failure(f"{value}: {strange[0]}: expected in a section", ExitCode.UNAVAILABLE)
    own = dict(found.get(_SECTION, {}))
    own.pop(_LIMITS, None)
    known = {
        each.name
        for each in context.command.params
        if isinstance(each, click.Option) and each.name not in (option.name, "as_json", "debug")
    }
    unknown = sorted(own.keys() - known)
    if unknown:
        listed = ", ".join(sorted(str(name) for name in known))
        text = f"{value}: [{_SECTION}] {unknown[0]}: no such option; known are {listed}"
        raise Failure(text, ExitCode.UNAVAILABLE)
    context.default_map = {**(context.default_map or {}), **own}
    return found


def limits_of(config: Mapping[str, Any]) -> Limits:
    """Return the limits that a file of options names.

    Raises:
        Failure: one that does not exist, or a number that is not allowed.
    """
    import attrs

    from reput_server.config import Limits

    given = config.get(_SECTION, {}).get(_LIMITS, {})
    where = f"[{_SECTION}.{_LIMITS}]"
    if not isinstance(given, dict):
        raise Failure(f"{where} is not a section", ExitCode.UNAVAILABLE)
    known = [each.name for each in attrs.fields(Limits)]
    for name, value in given.items():
        if name not in known:
            text = f"{where} {name}: no such limit; known are {', '.join(known)}"
            raise Failure(text, ExitCode.UNAVAILABLE)
        if type(value) is not int or value < 1:
            text = f"{where} {name} = {value!r}: a number above 0 expected"
            raise Failure(text, ExitCode.UNAVAILABLE)
    return Limits(**given)


def sections_of(
    config: Mapping[str, Any], more: Mapping[str, Mapping[str, object]]
) -> dict[str, dict[str, object]]:
    """Return the sections of a store: those of a file of options, and what ``more`` adds.

    What the file says of the address that records name counts.
    """
    found = {name: dict(section) for name, section in config.items() if name != _SECTION}
    for name, section in more.items():
        given = found.get(name, {})
        address = {"store_address": given["store_address"]} if "store_address" in given else {}
        found[name] = {**given, **section, **address}
    return {name: section for name, section in found.items() if section}


# --------------------------------------------------------------------------- keys, certificates


def read_keys(path: str | None) -> dict[str, str]:
    """Return secret keys by access key; none without a file.

    Raises:
        Failure: the file holds no keys.
    """
    if path is None:
        return {}
    found = _toml(path)
    if not found or not all(isinstance(secret, str) and secret for secret in found.values()):
        text = f'{path}: lines of ACCESS_KEY = "SECRET" are expected, at least one'
        raise Failure(text, ExitCode.UNAVAILABLE)
    return found


def tls_of(
    certificate: str | None, key: str | None, client_ca: str | None, mode: TlsMode | None
) -> TlsConfig | None:
    """Return how connections may be encrypted; None if they may not.

    Raises:
        Failure: a file cannot be used; better said before a store is made than behind it.
    """
    from reput_server.config import TlsConfig
    from reput_server.errors import CertificateError
    from reput_server.wire.certificates import context_of

    if certificate is None:
        if key is None and client_ca is None and mode in (None, "disabled"):
            return None
        given = "--tls-key" if key is not None else "--tls-ca" if client_ca is not None else "--tls"
        raise click.UsageError(f"{given} needs a certificate: name its file with --tls-cert FILE")
    tls = TlsConfig(
        certificate=certificate,
        key=certificate if key is None else key,
        client_ca=client_ca,
        mode="permissive" if mode is None else mode,
    )
    try:
        context_of(tls)
    except CertificateError as error:
        raise Failure(str(error), ExitCode.UNAVAILABLE) from None
    return tls


def _toml(path: str) -> dict[str, Any]:
    import tomllib

    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Failure(f"{path}: not valid TOML: {error}", ExitCode.UNAVAILABLE) from None
    except OSError as error:
        text = f"{path}: {error.strerror or error}; name a file that this user may read"
        raise Failure(text, ExitCode.UNAVAILABLE) from None
