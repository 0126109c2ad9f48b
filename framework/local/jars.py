"""The broker's jars: fetched once from Maven Central by the Ivy that PySpark ships, checked against SHA-256 sums.

The pinned list beside this module comes in, a directory that holds exactly those files goes out. It is in the user's
cache, so that a second checkout needs no download. It is checked at every use, and replaced as a whole or not at all.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

from framework.adapters.host.private_files import make_private, private_dir, write_private
from framework.adapters.host.process import exclusive
from framework.adapters.project.files import cache_dir
from framework.diagnose.counted import counted
from framework.errors import SetupError

KAFKA_VERSION = "4.1.2"
LOG4J_VERSION = "2.25.3"
SETTINGS_VARIABLE = "FLOE_IVY_SETTINGS"
Progress = Callable[[str], None]

# `bundle` besides `jar`: scala-logging and snakeyaml are packaged as OSGi bundles and are missed without it.
_TYPES = ("jar", "bundle")
_MODULE = f"""<ivy-module version="2.0">
  <info organisation="floe" module="local-broker"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{KAFKA_VERSION}" conf="default->default"/>
    <dependency org="org.apache.logging.log4j" name="log4j-slf4j-impl" rev="{LOG4J_VERSION}" conf="default->default"/>
  </dependencies>
</ivy-module>
"""


def pinned_sums() -> dict[str, str]:
    """File name -> SHA-256 of every jar of the broker."""
    text = files("framework.local").joinpath(f"kafka-{KAFKA_VERSION}.sha256.txt").read_text(encoding="utf-8")
    pairs = (line.split() for line in text.splitlines() if line.strip())
    return {name: digest for digest, name in pairs}


def broker_jars(java: str, progress: Progress) -> Path:
    """The directory of the broker's jars, fetched if it is not complete.

    Raises:
        SetupError: PySpark's Ivy is missing, the repository cannot be reached, or a file is not the pinned one.
    """
    home = cache_dir() / f"kafka-{KAFKA_VERSION}"
    with exclusive(home.with_name(f"{home.name}.lock")):
        if wrong_files(home):
            _fetch(java, home, progress)
    return home


def wrong_files(directory: Path) -> list[str]:
    """The names in the pinned list that are missing from a directory or are not what the list says."""
    return [name for name, digest in pinned_sums().items() if _sha256(directory / name) != digest]


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    found = sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar")) if spec and spec.origin else []
    if not found:
        raise SetupError(
            "the installed PySpark has no jars/ivy-*.jar, which fetches the broker",
            code="FLOE-E022",
            place="pyspark",
            remedy="pip install 'pyspark~=4.1.0'",
        )
    return found[-1]


def _fetch(java: str, home: Path, progress: Progress) -> None:
    private_dir(home.parent)
    with tempfile.TemporaryDirectory(dir=home.parent, prefix="fetch-") as scratch:
        jars = Path(scratch) / "jars"
        lines = _run_ivy(java, Path(scratch), jars, progress)
        wrong = wrong_files(jars)
        if wrong:
            raise _fetch_error(wrong, jars, lines)
        shutil.rmtree(home, ignore_errors=True)
        make_private(jars)
        jars.replace(home)
    progress(f"Kafka {KAFKA_VERSION}: {len(pinned_sums())} jars in {home}")


def _run_ivy(java: str, scratch: Path, jars: Path, progress: Progress) -> list[str]:
    module = scratch / "module.ivy"
    write_private(module, _MODULE)
    settings = os.environ.get(SETTINGS_VARIABLE)
    command = [java, "-jar", str(_ivy_jar()), "-cache", str(scratch / "ivy"), "-ivy", str(module)]
    command += ["-settings", settings] if settings else []
    command += ["-types", *_TYPES, "-confs", "default", "-retrieve", f"{jars}/[artifact]-[revision].[ext]"]
    total = len(pinned_sums())
    source = f"the repositories of {settings}" if settings else "Maven Central"
    progress(f"Kafka {KAFKA_VERSION}: fetching {total} jars (43 MB) from {source}, once for this machine")
    lines: list[str] = []
    found = fetched = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.rstrip())
            is_found, is_fetched = line.startswith("\tfound "), "[SUCCESSFUL ]" in line
            found, fetched = found + is_found, fetched + is_fetched
            if (is_found or is_fetched) and (found + fetched) % 10 == 0:
                progress(f"Kafka {KAFKA_VERSION}: {found} of {total} jars found, {fetched} of {total} fetched")
    return lines


def _fetch_error(wrong: list[str], jars: Path, lines: list[str]) -> SetupError:
    changed = [name for name in wrong if (jars / name).exists()]
    if changed:
        return SetupError(
            f"{counted(len(changed), 'fetched file is', 'fetched files are')} not as pinned: {', '.join(changed[:5])}",
            code="FLOE-E023",
            place=f"kafka-{KAFKA_VERSION}.sha256.txt",
            remedy=f"check the mirror that serves them; name another with {SETTINGS_VARIABLE}=/path/to/ivysettings.xml",
        )
    said = [line.strip() for line in lines if "ERROR" in line or "rror" in line or "WARN" in line]
    detail = f"; Ivy says: {said[0]}" if said else ""
    return SetupError(
        f"{len(wrong)} of the broker's {len(pinned_sums())} jars could not be fetched{detail}",
        code="FLOE-E022",
        place="https://repo1.maven.org/maven2",
        remedy="check the network and run the command again; behind a mirror, "
        f"set {SETTINGS_VARIABLE}=/path/to/ivysettings.xml",
    )
