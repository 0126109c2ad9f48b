"""The command with which a local Spark starts Python: this very interpreter, importing the installed, compiled PySpark.

In: the interpreter and where Spark is installed. Out: the path of a command. Spark puts its own copy of PySpark, a zip
file, before everything else on the path of each Python process. What comes out of a zip file is compiled anew in each
of them: 0.75 s for each of the six processes of a start, one after the other.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
from pathlib import Path

from framework.adapters.host.private_files import PROGRAM, private_dir, write_private
from framework.adapters.host.process import python_in_shell
from framework.adapters.project.files import cache_dir
from framework.errors import SetupError

_SCRIPT = """#!/bin/sh
# Starts Python for a local Spark with the PySpark that is installed beside it, not with the same one as a zip file; and
# without the jar of Spark's core, in which there is no Python: each task would read its list of thousands of files anew.
# Made by floe at each start where it is missing; safe to delete.
kept=
set -f
IFS=:
for entry in $PYTHONPATH; do
  case $entry in
    '' | */python/lib/pyspark.zip | */python/lib/py4j-*-src.zip | */jars/spark-core_*.jar) ;;
    *) kept=$kept${kept:+:}$entry ;;
  esac
done
unset IFS
# Nor from the current folder, where anybody's files may lie.
@START@
# NumPy's linear algebra, which nothing here uses, starts a thread for each core when it is imported.
PYTHONPATH=$kept OPENBLAS_NUM_THREADS=${OPENBLAS_NUM_THREADS:-1} exec @PYTHON@ "$@"
"""


def python_command(spark_home: Path) -> str:
    """The interpreter itself where PySpark is not installed as files, or no command can be made; else the command.

    Args:
        spark_home: where the Spark is whose zip files are left out; another Spark than ours needs its own.
    """
    import py4j
    import pyspark

    installed = Path(pyspark.__file__).parent == spark_home and all(
        Path(str(module.__file__)).is_file() for module in (pyspark, py4j)
    )
    if not installed or os.name != "posix":
        return sys.executable
    text = _SCRIPT.replace("@PYTHON@", shlex.quote(sys.executable))
    text = text.replace("@START@", python_in_shell(sys.version_info[:2]))
    command = cache_dir() / "python" / hashlib.sha256(text.encode()).hexdigest()[:16]
    try:
        if not command.is_file():
            private_dir(cache_dir())
            write_private(private_dir(command.parent) / command.name, text, PROGRAM)
        private_dir(command.parent)  # what lies there is run: only if it is ours
        # A cache on a file system from which nothing may be started is no help.
        return str(command) if os.access(command, os.X_OK) else sys.executable
    except (OSError, SetupError):
        return sys.executable
