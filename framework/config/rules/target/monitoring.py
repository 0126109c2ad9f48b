"""Rules about how a target is watched: what listens off loopback asks for a token, and addresses have a form.

In: a target's tree, resolved. Out: a diagnostic per violation. Whether a name is of this machine alone cannot be known
here, so that only `localhost` and addresses of loopback count as such.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from framework.config.tree import Mapping, Scalar, find
from framework.diagnose.diagnostic import Diagnostic

_LISTEN = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]\s]+)):([0-9]{1,5})\Z")


def host_and_port(listen: str) -> tuple[str, int] | None:
    """`host:port` or `[address]:port` as its parts; None where it has another form."""
    match = _LISTEN.match(listen)
    if match is None or int(match[3]) > 65_535:
        return None
    return match[1] or match[2], int(match[3])


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host's address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def monitoring_rules(resolved: Mapping) -> Iterator[Diagnostic]:
    """An address that others reach needs a token; other forms of address are refused."""
    for key, port in (("listen", 9464), ("page", 8765)):
        listen = find(resolved, ("monitoring", key))
        if not isinstance(listen, Scalar) or not isinstance(listen.value, str):
            continue
        parts = host_and_port(listen.value)
        path = f"monitoring.{key}"
        if parts is None:
            yield Diagnostic(
                "FLOE-C707",
                f"`{listen.value}` is no address to listen at",
                listen.span,
                path=path,
                remedy=f"write `host:port`, such as `127.0.0.1:{port}`",
            )
        elif not is_loopback(parts[0]) and find(resolved, ("monitoring", "token")) is None:
            yield Diagnostic(
                "FLOE-C708",
                f"others can reach `{listen.value}`, and there is no token",
                listen.span,
                path=path,
                remedy="add `token: ${secret:env:FLOE_METRICS_TOKEN}`, or listen at `127.0.0.1`",
            )
