"""Jars from Maven Central by the Ivy that PySpark ships, for servers that tests and benchmarks run.

In: a name and the dependencies as Ivy writes them. Out: the folder with all jars, in floe's cache; complete or absent.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pyspark

from framework.local.jars import SETTINGS_VARIABLE, cache_dir
from framework.local.java import find_java
from framework.local.process import exclusive

JARS_OF_PYSPARK = Path(pyspark.__file__).parent / "jars"
_MODULE = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="floe" module="{name}"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>{dependencies}</dependencies>
</ivy-module>
"""


def dependency(organisation: str, name: str, version: str, inner: str = "") -> str:
    """One dependency with what it needs at run time; `inner` names artifacts or exclusions."""
    return (
        f'<dependency org="{organisation}" name="{name}" rev="{version}" conf="default->default">{inner}</dependency>'
    )


def jars(name: str, dependencies: list[str]) -> Path:
    """The folder of the jars, fetched if it is not there (once for a machine)."""
    home = cache_dir() / name
    with exclusive(home.with_name(f"{home.name}.lock")):
        if not home.exists():
            _fetch(home, _MODULE.format(name=name, dependencies="".join(dependencies)))
    return home


def _fetch(home: Path, module_text: str) -> None:
    with tempfile.TemporaryDirectory(dir=home.parent, prefix="fetch-") as scratch:
        module, folder = Path(scratch) / "module.ivy", Path(scratch) / "jars"
        module.write_text(module_text)
        settings = os.environ.get(SETTINGS_VARIABLE)
        command = [find_java(), "-jar", str(next(JARS_OF_PYSPARK.glob("ivy-*.jar")))]
        command += ["-cache", f"{scratch}/ivy", "-ivy", str(module), *(["-settings", settings] if settings else [])]
        command += ["-types", "jar", "bundle", "-confs", "default"]
        command += ["-retrieve", f"{folder}/[artifact](-[classifier])-[revision].[ext]"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        assert answer.returncode == 0, answer.stdout[-3000:]
        assert any(folder.glob("*.jar")), answer.stdout[-3000:]
        shutil.move(folder, home)
