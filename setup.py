"""What setup.cfg cannot say: the compiled modules, built where a C compiler is and left out elsewhere; and the commit that a
build is made from, which `floe --version` shows."""

import os
import platform
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

# Continuous integration and `make wheel` set it: there a module that does not compile is an error, not a slower floe.
REQUIRED = bool(os.environ.get("FLOE_REQUIRE_COMPILED"))

# Free-threaded Python has no limited interface; there, on Windows and on other Pythons
# records are fetched in Python, and parsed and put apart by Arrow.
BUILDABLE = (
    sys.platform != "win32"
    and platform.python_implementation() == "CPython"
    and not sysconfig.get_config_var("Py_GIL_DISABLED")
)


def compiled(package: str, name: str, libraries: tuple[str, ...] = ()) -> Extension:
    return Extension(
        f"framework.{package}.{name}",
        [f"framework/{package.replace('.', '/')}/{name}.c"],
        py_limited_api=True,
        optional=not REQUIRED,
        extra_compile_args=["-O2", "-std=gnu11"],
        libraries=list(libraries),
    )


MODULES = [
    compiled("adapters.kafka", "_fetch", ("dl",) if sys.platform.startswith("linux") else ()),
    compiled("adapters", "_key_hash"),
    compiled("record.json", "_json"),
    compiled("record.rows", "_scatter"),
]

ROOT = Path(__file__).parent
COMMIT = "framework/commit.txt"


def write_commit(folder):
    """Note the commit of a checkout below the folder of a build; a source archive brings the note of its own."""
    known = ROOT / COMMIT
    if known.is_file():
        noted = known.read_text(encoding="utf-8")
    elif (ROOT / ".git").exists():
        words = ["git", "describe", "--always", "--dirty", "--exclude=*", "--abbrev=12"]
        noted = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    else:
        return
    (folder / COMMIT).write_text(noted, encoding="utf-8")


class BuildWithCommit(build_py):
    def run(self):
        super().run()
        if not self.editable_mode:  # a checkout knows it by itself
            write_commit(Path(self.build_lib))


class SourceWithCommit(sdist):
    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        write_commit(Path(base_dir))


setup(
    cmdclass={"build_py": BuildWithCommit, "sdist": SourceWithCommit},
    ext_modules=MODULES if BUILDABLE else [],
    options={"bdist_wheel": {"py_limited_api": "cp310"}} if BUILDABLE else {},
)
