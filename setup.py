"""What setup.cfg cannot say: the compiled modules, built where a C compiler is and left out elsewhere."""

import os
import platform
import sys
import sysconfig

from setuptools import Extension, setup

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

setup(
    ext_modules=MODULES if BUILDABLE else [],
    options={"bdist_wheel": {"py_limited_api": "cp310"}} if BUILDABLE else {},
)
