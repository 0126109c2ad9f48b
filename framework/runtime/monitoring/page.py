"""The page that a driver or a coordinator serves beside its work: one for each of its control topics, in a process of its
own.

In: what the process is connected to, and where the target wants the page. Out: an address that is listened at, and a
process that answers there (`page_process`). Invariant: whatever visitors do to that process, the run has its own memory,
descriptors and share of the processor; a page that ends is started again, and a page that hangs is nobody's business.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import asdict
from importlib.util import find_spec

from framework.adapters.host.process import python, python_environment
from framework.errors import SetupError
from framework.observe.live.reader import LiveTarget

log = logging.getLogger(__name__)

AGAIN_AFTER_S = 5.0
CLOSE_S = 3.0
NEEDED = ("starlette", "uvicorn")
PORTS_TRIED = 100
MODULE = "framework.runtime.monitoring.page_process"


class Page:
    """Of one control topic. Listens at once, and answers as soon as the topic is read."""

    def __init__(
        self,
        looked: LiveTarget,
        host: str,
        port: int,
        token: str,
        names: tuple[str, ...] = (),
    ) -> None:
        """Begin, at the port or at the next free one. `names`: those that clients may use beside the machine's own.

        Raises:
            SetupError: FLOE-E411, what serves it is not installed. FLOE-E036, the address cannot be listened at.
                FLOE-E037, others reach it, and there is no token.
        """
        check_installed()
        from framework.web.access.access import needs_tokens, refused

        if not token and needs_tokens(host):
            raise refused(
                f"others can reach {host}:{port}, and there is no token", f"{host}:{port}", "set `monitoring.token`"
            )
        self._bound = _bind(host, port)
        bound_host, bound_port = self._bound.getsockname()[:2]
        self.address = f"[{bound_host}]:{bound_port}" if ":" in bound_host else f"{bound_host}:{bound_port}"
        known = [host, socket.gethostname(), *names]
        # What stands in here is secret: it goes through a pipe, and is in no command line and no environment.
        self._settings = json.dumps({"looked": asdict(looked), "host": bound_host, "names": known, "token": token})
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._child: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._keep, name="page", daemon=True)
        self._thread.start()

    def close(self) -> None:
        with self._lock:
            self._closing.set()
            child = self._child
        if child is not None:
            child.terminate()
            try:
                child.wait(CLOSE_S)
            except subprocess.TimeoutExpired:  # it hangs
                child.kill()
        self._thread.join(CLOSE_S)
        self._bound.close()

    def _keep(self) -> None:
        """Start it, and again where it ended."""
        while (child := self._started()) is not None:
            ended = child.wait()
            with suppress(OSError):
                assert child.stdin is not None
                child.stdin.close()
            if not self._closing.is_set():
                log.warning("the page's process ended with %s; it is started again", ended)
                self._closing.wait(AGAIN_AFTER_S)

    def _started(self) -> subprocess.Popen[str] | None:
        with self._lock:
            if self._closing.is_set():
                return None
            self._child = child = subprocess.Popen(
                python("-m", MODULE, str(self._bound.fileno())),
                stdin=subprocess.PIPE,
                env=python_environment(PYTHONPATH=os.pathsep.join(path for path in sys.path if path)),
                pass_fds=(self._bound.fileno(),),
                text=True,
            )
        with suppress(OSError):  # it is gone already
            assert child.stdin is not None
            child.stdin.write(self._settings + "\n")
            child.stdin.flush()  # and stays open: when this process ends, however it does, the page's ends, too
        return child


def _bind(host: str, port: int) -> socket.socket:
    """Two processes of one target do not share a port: each shows itself."""
    from framework.web.serve import bind

    for number in range(port, min(port + PORTS_TRIED, 65_536) if port else 1):
        try:
            return bind(host, number, "correct `monitoring.page` of the target")
        except SetupError as error:
            last = error
            cause = error.__context__
            if not isinstance(cause, OSError) or cause.errno != errno.EADDRINUSE:
                break
    raise last


def check_installed() -> None:
    """Raises SetupError (FLOE-E411) where the extra `ops` is missing."""
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise SetupError(
            f"package {missing[0]} is not installed",
            code="FLOE-E411",
            place=sys.prefix,
            remedy="install floe with its page: `pip install 'floe-pipelines[ops]'`",
        )
