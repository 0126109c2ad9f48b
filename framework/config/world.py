"""Everything from the environment that loading a file may use, as values: variables, the local stack's state, file
texts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class World:
    """The outside, handed in by `framework.adapters.project.files` or by a test.

    Args:
        env: the environment variables that `${env:NAME}` may read.
        local: what `floe local up` wrote, for `${local:NAME}`.
        read_file: the text of a file; raises OSError or UnicodeDecodeError.
        offline: the values of the run's environment are not expected to be here (validation in CI): a missing
            `${local:NAME}` is left as it is and a missing `${env:NAME}` is a warning.
        secret_schemes: what `${secret:SCHEME:NAME}` may begin with.
        read_bytes: the bytes of a file; raises OSError.
        names_in: the names of the files and folders in a folder, none where it cannot be read; to guess what was meant.
        real_path: where a path leads once links are followed; it need not exist.
        packaged_templates: the folders of template libraries that installed packages offer, by package name.
        template_cache: the folder of what `floe templates lock` fetched, each library below the hash of its content.
    """

    env: Mapping[str, str]
    local: Mapping[str, str]
    read_file: Callable[[Path], str]
    offline: bool = False
    secret_schemes: Collection[str] = ("env", "file")
    packaged_templates: Mapping[str, Path] | None = None
    template_cache: Path | None = None
    read_bytes: Callable[[Path], bytes] = Path.read_bytes
    names_in: Callable[[Path], Collection[str]] = lambda folder: ()
    real_path: Callable[[Path], Path] = Path.resolve
