"""Fetches libraries of templates by the `git` program, and keeps their texts in the user's private cache.

In: an address that was judged before, and a tag. Out: the tag's commit and the texts of its templates; nothing of the
repository is run. There is no shell, no hook, no submodule and no checkout: blobs are read as they are.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from framework.adapters.host.private_files import private_dir, write_private
from framework.config.names.file_kinds import YAML_ENDINGS
from framework.config.templates.lock import SCHEMES, Library, path_problem
from framework.diagnose.secrets import redacted
from framework.errors import SetupError

TIMEOUT_S = 120.0
MOST_FILES, MOST_BYTES = 1000, 4 * 1024 * 1024
_DEFAULT_FOLDER = "templates"
# Who a person is to git, and by which way; all else of git's environment would lead it to another repository.
_KEPT = ("GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_SSL_CAINFO", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM")
_SAFE = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "fetch.recurseSubmodules=false",
    "fetch.fsckObjects=true",
    "gc.auto=0",
    "maintenance.auto=false",
)


@dataclass(frozen=True)
class Fetched:
    """`texts` by path below `folder`, which is "" for the repository's root."""

    commit: str
    folder: str
    texts: Mapping[str, str]


def fetch(url: str, tag: str, folder: str | None) -> Fetched:
    """What a tag holds.

    Args:
        folder: where its templates are; None: `templates` where there is one, else the root.

    Raises:
        SetupError: FLOE-E035, git is missing, refuses or takes too long; or what it fetched holds no templates, or too
            much.
    """
    with tempfile.TemporaryDirectory(prefix="floe-templates-") as scratch:
        repository = Path(scratch) / "repository.git"
        _git(Path(scratch), "init", "--quiet", "--bare", "--template=", str(repository), about=url)
        ref = f"refs/tags/{tag}"
        _git(
            repository, "fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--", url, f"{ref}:{ref}",
            about=url,
        )  # fmt: skip
        commit = _git(repository, "rev-parse", "--verify", f"{ref}^{{commit}}", about=url).decode().strip()
        blobs = _blobs(repository, commit, url)
        if folder is None:
            folder = _DEFAULT_FOLDER if any(path.parts[0] == _DEFAULT_FOLDER for path in blobs) else ""
        below = {path.relative_to(folder): blob for path, blob in blobs.items() if path.is_relative_to(folder or ".")}
        if not below or len(below) > MOST_FILES:
            what = f"more than {MOST_FILES} files" if below else f"no *.yaml or *.yml file in `{folder or '.'}`"
            raise _refused(url, f"{tag} has {what}", "name the folder of the templates with `--folder`")
        texts = {str(path): _text(repository, blob, f"{url} {path}") for path, blob in below.items()}
    return Fetched(commit, folder, texts)


def tags_of(url: str) -> dict[str, str]:
    """The repository's tags, and the commit of each. Raises SetupError, see `fetch`."""
    commits: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="floe-templates-") as scratch:
        lines = _git(Path(scratch), "ls-remote", "--quiet", "--tags", "--", url, about=url).decode(errors="replace")
    for line in lines.splitlines():
        commit, _, ref = line.partition("\t")
        name = ref.removeprefix("refs/tags/")
        if name.endswith("^{}"):  # what an annotated tag points to
            commits[name.removesuffix("^{}")] = commit
        else:
            commits.setdefault(name, commit)
    return commits


def store(library: Library, texts: Mapping[str, str], cache: Path) -> None:
    """Puts a library's texts where `framework.config.templates.find` looks for them."""
    root = private_dir(cache) / library.content
    for path, text in texts.items():
        file = root / path
        private_dir(file.parent)
        write_private(file, text)


def _blobs(repository: Path, commit: str, url: str) -> dict[PurePosixPath, str]:
    """Plain YAML files by path; links and submodules are passed over."""
    found = {}
    for line in _git(repository, "ls-tree", "-r", "-z", "-l", commit, about=url).split(b"\0"):
        about, _, name = line.partition(b"\t")
        if about.startswith((b"100644", b"100755")) and name.endswith(tuple(each.encode() for each in YAML_ENDINGS)):
            _, _, blob, size = about.decode().split()
            if int(size) > MOST_BYTES:
                raise _refused(url, f"{name.decode(errors='replace')} is larger than 4 MiB", "make it smaller")
            if problem := path_problem(name.decode(errors="replace")):
                raise _refused(url, problem, "give the file another name")
            found[PurePosixPath(name.decode())] = blob
    return found


def _text(repository: Path, blob: str, about: str) -> str:
    """A file's text as files are read: without a byte order mark, and with plain line ends."""
    content = _git(repository, "cat-file", "blob", blob, about=about)
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise _refused(about, "it is not UTF-8 text", "save it as UTF-8") from None


def _git(folder: Path, *arguments: str, about: str) -> bytes:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_") or key in _KEPT}
    environment |= {"GIT_ALLOW_PROTOCOL": ":".join(SCHEMES), "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    settings = [word for setting in _SAFE for word in ("-c", setting)]
    try:
        done = subprocess.run(
            ["git", *settings, *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError:
        raise _refused(about, "the program `git` is not installed", "install git") from None
    except subprocess.TimeoutExpired:
        raise _refused(
            about, f"git does not end within {TIMEOUT_S:.0f} s", "check the address and the network"
        ) from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["it says nothing"]
        said = redacted(next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[-1]))
        remedy = "check address and tag; try `git ls-remote --tags` with the address"
        raise _refused(about, f"git fails: {said}", remedy)
    return done.stdout


def _refused(about: str, message: str, remedy: str) -> SetupError:
    return SetupError(f"the templates cannot be fetched: {message}", code="FLOE-E035", place=about, remedy=remedy)
