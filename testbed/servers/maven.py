"""Jars from Maven Central by the Ivy that PySpark ships, for servers that tests and benchmarks run.

In: a name and the dependencies as Ivy writes them, or an archive with its SHA-256. Out: the folder with all jars, or
with what the archive holds, in floe's cache; complete or absent.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark

from framework.adapters.host.java import find_java
from framework.adapters.host.process import exclusive
from framework.adapters.project.files import cache_dir
from framework.local.jars import SETTINGS_VARIABLE

JARS_OF_PYSPARK = Path(pyspark.__file__).parent / "jars"
_MODULE = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="floe" module="{name}"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>{dependencies}</dependencies>
</ivy-module>
"""


# An archive stands alone, and the description of what it was made of need not be whole.
_WITHOUT_POMS = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true" usepoms="false"/></resolvers>
</ivysettings>
"""


def dependency(organisation: str, name: str, version: str, inner: str = "") -> str:
    """One dependency with what it needs at run time; `inner` names artifacts or exclusions."""
    return (
        f'<dependency org="{organisation}" name="{name}" rev="{version}" conf="default->default">{inner}</dependency>'
    )


def lone_jar(organisation: str, name: str, version: str, classifier: str) -> str:
    """One jar that holds all it needs."""
    return (
        f'<dependency org="{organisation}" name="{name}" rev="{version}" transitive="false" conf="default->default">'
        f'<artifact name="{name}" type="jar" ext="jar" m:classifier="{classifier}"/></dependency>'
    )


def jars(name: str, dependencies: list[str]) -> Path:
    """The folder of the jars, fetched if it is not there (once for a machine)."""
    home = cache_dir() / name
    with exclusive(home.with_name(f"{home.name}.lock")):
        if not home.exists():
            with _fetched(home, dependencies, ("jar", "bundle")) as folder:
                assert any(folder.glob("*.jar")), f"Ivy has fetched nothing for {name}"
                shutil.move(folder, home)
    return home


def archive(name: str, organisation: str, version: str, classifier: str, sha256: str) -> Path:
    """The folder that an archive holds, fetched and unpacked if it is not there; `sha256` is what the archive must
    be."""
    home = cache_dir() / f"{name}-{version}"
    kind = f'name="{name}" type="tar.gz" ext="tar.gz"' + (f' m:classifier="{classifier}"' if classifier else "")
    needed = f'<dependency org="{organisation}" name="{name}" rev="{version}" transitive="false"><artifact {kind}/>'
    with exclusive(home.with_name(f"{home.name}.lock")):
        if not home.exists():
            with _fetched(home, [f"{needed}</dependency>"], ("tar.gz",), _WITHOUT_POMS) as folder:
                [packed] = folder.glob("*.tar.gz")
                assert hashlib.sha256(packed.read_bytes()).hexdigest() == sha256, f"{packed.name} is not the pinned one"
                shutil.unpack_archive(packed, folder / "unpacked")
                shutil.move(folder / "unpacked", home)
    return home


@contextmanager
def _fetched(
    home: Path, dependencies: list[str], types: Sequence[str], default_settings: str | None = None
) -> Iterator[Path]:
    """A folder beside `home` with the files, for as long as they are needed."""
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent, prefix="fetch-") as scratch:
        module, folder = Path(scratch) / "module.ivy", Path(scratch) / "files"
        module.write_text(_MODULE.format(name=home.name, dependencies="".join(dependencies)))
        settings = os.environ.get(SETTINGS_VARIABLE)
        if settings is None and default_settings is not None:
            settings = f"{scratch}/settings.xml"
            Path(settings).write_text(default_settings)
        command = [find_java(), "-jar", str(next(JARS_OF_PYSPARK.glob("ivy-*.jar")))]
        command += ["-cache", f"{scratch}/ivy", "-ivy", str(module), *(["-settings", settings] if settings else [])]
        command += ["-types", *types, "-confs", "default"]
        command += ["-retrieve", f"{folder}/[artifact](-[classifier])-[revision].[ext]"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        assert answer.returncode == 0, answer.stdout[-3000:]
        yield folder
