"""Finds the Java that Spark would use, and says in one sentence what to do when there is none.

`JAVA_HOME` and the search path come in, the path of a `java` of a usable version goes out.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

from framework.errors import SetupError

OLDEST, FIRST_TOO_NEW = 17, 24  # Spark 4.1 runs on 17 and 21; from 24 on the JVM lacks what Hadoop's login needs
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def install_command() -> str:
    """The one command that installs Java on this kind of machine."""
    if platform.system() == "Darwin":
        return "brew install openjdk@21 && export JAVA_HOME=$(brew --prefix openjdk@21)"
    for tool, command in (
        ("apt-get", "sudo apt-get install -y openjdk-17-jre-headless"),
        ("dnf", "sudo dnf install -y java-21-openjdk-headless"),
        ("zypper", "sudo zypper install -y java-21-openjdk-headless"),
        ("apk", "sudo apk add openjdk21-jre-headless"),
        ("pacman", "sudo pacman -S --noconfirm jre21-openjdk-headless"),
    ):
        if shutil.which(tool):
            return command
    return 'curl -s "https://get.sdkman.io" | bash && . ~/.sdkman/bin/sdkman-init.sh && sdk install java 21-tem'


def java_major(text: str) -> int | None:
    """The major version in the output of `java -version`; None when there is no version in it."""
    match = _VERSION.search(text)
    return int(match.group(1)) if match else None


def find_java() -> str:
    """The path of a usable `java`: the one in JAVA_HOME, else the first in PATH.

    Raises:
        SetupError: there is none, or its version is not one that Spark runs on.
    """
    home = os.environ.get("JAVA_HOME")
    candidate = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if candidate is None or not Path(candidate).is_file():
        where = f"JAVA_HOME={home}" if home else "PATH"
        raise SetupError("Java 17 or 21 is needed, and there is none", code="FLOE-E021", place=where, remedy=_remedy())
    answer = subprocess.run([candidate, "-version"], capture_output=True, text=True, check=False)
    major = java_major(answer.stderr + answer.stdout)
    if answer.returncode != 0 or major is None:  # macOS ships a `java` that only says that there is no Java
        raise SetupError("this `java` does not run", code="FLOE-E021", place=candidate, remedy=_remedy())
    if not OLDEST <= major < FIRST_TOO_NEW:
        raise SetupError(
            f"Java 17 or 21 is needed, this is Java {major}", code="FLOE-E021", place=candidate, remedy=_remedy()
        )
    return candidate


def _remedy() -> str:
    return f"{install_command()}   (or set JAVA_HOME to an installed Java 17 or 21)"
