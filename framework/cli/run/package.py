"""`floe package`: build the archive of Python packages that `floe submit` ships, ahead of time or for another platform."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import click

from framework.adapters.telemetry.safe_output import log_line
from framework.cli.shared.options import json_option


@click.command()
@click.option("--python", "python_version", metavar="3.11", help="The nodes' Python; by default this machine's.")
@click.option("--platform", metavar="NAME", help="The nodes' platform as pip names it, such as manylinux_2_28_x86_64.")
@json_option
def package(python_version: str | None, platform: str | None, as_json: bool) -> None:
    """Build the archive of Python packages. It is stored under the hash of its lock and built only once."""
    from framework.deploy.package.archive import archive_path, build_archive, this_lock

    lock = this_lock()
    compiled = lock.compiled if platform in (None, lock.platform) else ""
    lock = replace(lock, python=python_version or lock.python, platform=platform or lock.platform, compiled=compiled)
    known = archive_path(lock).exists()
    started = time.monotonic()
    archive = build_archive(lock, lambda text: click.echo(f"package: {log_line(text)}", err=True))
    if as_json:
        facts = {"archive": str(archive), "key": lock.key, "built": not known, "packages": list(lock.requirements)}
        click.echo(json.dumps({"command": "package", "ok": True, "bytes": archive.stat().st_size, **facts}, indent=2))
        return
    how = "kept from before" if known else f"built in {time.monotonic() - started:.0f} s"
    click.echo(f"{archive}\n{len(lock.requirements)} packages for Python {lock.python} on {lock.platform}, {how}")
