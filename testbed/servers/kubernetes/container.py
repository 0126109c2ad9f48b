"""One container of the test kubelet: a process that is the first of its own namespace, in a root of its own.

In: words, variables, mounts, a user. Out: a process whose end ends all that it started. The root holds this machine's
programs, read-only, this checkout at its own path, and what the image of floe has: /opt/floe, the entry point and a user.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from testbed.servers.kubernetes.pod_files import Mount

ROOT = Path(__file__).parents[3]
ENTRYPOINT = ROOT / "deploy" / "kubernetes" / "entrypoint"
_SYSTEM = ("bin", "lib", "lib32", "lib64", "sbin", "usr")


class Container:
    """Begins at once; its output goes to `log` in the folder."""

    def __init__(
        self,
        words: Sequence[str],
        variables: Mapping[str, str],
        mounts: Sequence[Mount],
        folder: Path,
        user: int,
        working_dir: str,
        is_read_only: bool,
    ) -> None:
        if os.geteuid() != 0:
            pytest.skip("the test kubelet starts pods in namespaces of their own, which needs root")
        given = {"PATH": "/opt/floe/bin:/usr/bin:/bin", "PYTHONUNBUFFERED": "1", "LANG": "C.UTF-8", **variables}
        self._is_killed = False
        script = folder / "start.sh"
        script.write_text(_script(folder / "root", mounts, user, working_dir, is_read_only, words, given))
        script.chmod(0o700)
        apart = ["unshare", "--mount", "--pid", "--fork", "--kill-child=SIGKILL", "--propagation", "private"]
        with (folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*apart, "sh", str(script)], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def poll(self) -> int | None:
        """The exit code, as Kubernetes counts it."""
        code = self._process.poll()
        if code is not None and self._is_killed:  # `unshare` cannot end itself as its child was ended, and says 1
            return 128 + signal.SIGKILL
        return 128 - code if code is not None and code < 0 else code

    def signal(self, number: signal.Signals) -> None:
        """To the container's first process alone."""
        first = self.first_process()
        self._is_killed |= number == signal.SIGKILL and first is not None
        if first is not None:
            os.kill(first, number)
        elif number == signal.SIGKILL and self._process.poll() is None:
            self._process.kill()

    def first_process(self) -> int | None:
        if self._process.poll() is not None:
            return None
        file = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        children = file.read_text().split() if file.exists() else []
        return int(children[0]) if children else None


def _script(
    root: Path,
    mounts: Sequence[Mount],
    user: int,
    working_dir: str,
    is_read_only: bool,
    command: Sequence[str],
    variables: Mapping[str, str],
) -> str:
    """What becomes the container's first process, after it has made its root. Mounts of others are not touched."""
    lines = [
        "set -eu",
        f"root={shlex.quote(str(root))}",
        'mkdir -p "$root"',
        'mount -t tmpfs -o mode=755 tmpfs "$root"',
    ]
    lines.append('cd "$root" && mkdir -p dev proc sys tmp run var opt usr old && ln -s ../run var/run')
    for name in _SYSTEM:
        if Path(f"/{name}").is_symlink():
            lines.append(f"ln -s {shlex.quote(os.readlink(f'/{name}'))} {name}")
        elif Path(f"/{name}").is_dir():
            lines.append(f"mkdir -p {name} && mount --bind -o ro /{name} {name}")
    lines.append("cp -a /etc etc && sed -i '/:x:10001:/d' etc/passwd && chmod 755 etc")
    lines.append(f"echo 'floe:x:{user}:{user}::/var/lib/floe:/bin/sh' >> etc/passwd")
    for each in (ROOT, Path(sys.base_prefix)):
        lines.append(f"mkdir -p .{each} && mount --bind -o ro {each} .{each}")
    lines.append(f"mkdir -p opt/floe && mount --bind -o ro {ROOT}/.venv opt/floe")
    lines.append("mount --rbind /dev dev && mount -t proc proc proc && chmod 1777 tmp")
    for mount in mounts:
        at = shlex.quote(f".{mount.path}")
        lines.append(f"mkdir -p {at} && mount --bind {shlex.quote(str(mount.source))} {at}")
        if mount.is_read_only:
            lines.append(f"mount -o remount,bind,ro {at}")
    lines.append(f"mkdir -p .{working_dir}")
    if is_read_only:
        lines.append('mount -o remount,ro "$root"')
    lines.append("pivot_root . old && umount -l /old")
    lines.append(f"cd {shlex.quote(working_dir)}")
    environment = " ".join(shlex.quote(f"{key}={value}") for key, value in variables.items())
    becomes = f"setpriv --reuid {user} --regid {user} --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all"
    lines.append(f"exec env -i {environment} {becomes} {shlex.join(command)}")
    return "\n".join(lines) + "\n"
