"""The one thing that setup.cfg cannot say: the compiled fetch, which is built where a C compiler is and left out elsewhere."""

import platform
import sys
import sysconfig

from setuptools import Extension, setup

# Free-threaded Python has no limited interface; there, on Windows and on other Pythons records are fetched in Python.
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

setup(
    ext_modules=[FETCH] if BUILDABLE else [],
    options={"bdist_wheel": {"py_limited_api": "cp310"}} if BUILDABLE else {},
)
