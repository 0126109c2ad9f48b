"""What setup.cfg cannot say: the compiled modules, built where a C compiler is and left out elsewhere."""

import platform
import sys
import sysconfig

from setuptools import Extension, setup

# Free-threaded Python has no limited interface; there, on Windows and on other Pythons
# records are fetched in Python, and parsed and put apart by Arrow.
BUILDABLE = (
    sys.platform != "win32"
    and platform.python_implementation() == "CPython"
    and not sysconfig.get_config_var("Py_GIL_DISABLED")
)

FETCH = Extension(
    "framework.adapters._fetch",
    ["framework/adapters/_fetch.c"],
    py_limited_api=True,
    optional=True,
    extra_compile_args=["-O2", "-std=gnu11"],
    libraries=["dl"] if sys.platform.startswith("linux") else [],
)

JSON = Extension(
    "framework.record._json",
    ["framework/record/_json.c"],
    py_limited_api=True,
    optional=True,
    extra_compile_args=["-O2", "-std=gnu11"],
)

SCATTER = Extension(
    "framework.record._scatter",
    ["framework/record/_scatter.c"],
    py_limited_api=True,
    optional=True,
    extra_compile_args=["-O2", "-std=gnu11"],
)

setup(
    ext_modules=[FETCH, JSON, SCATTER] if BUILDABLE else [],
    options={"bdist_wheel": {"py_limited_api": "cp310"}} if BUILDABLE else {},
)
