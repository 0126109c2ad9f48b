"""Runs tests on other versions: `python -m tests.versions --python PYTHON ... --java JAVA_HOME ... --spark VERSION
...`.

In: interpreters and Java homes of this machine, versions of Spark on the package index. Out: JUnit files in
`build/versions/`, of which `python -m tests.compatibility` makes the table. Each pair of Python and Spark gets an
environment from the lock, in which Spark's version alone differs; each is made once. What was run before is not run
again unless `--again` says so.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

from framework.adapters.host.java import java_major
from tests.reports import ROOT

BUILD = ROOT / "build" / "versions"
JOB = ["tests/spark/test_flights.py", "-k", "embedded"]
# An environment with another Spark than the lock's is not the lock's.
NOT_THE_LOCK = "tests/unit/local/test_setup.py::test_the_lock_names_every_package_at_the_version_that_is_tested"
UNIT = ["tests/unit", "-m", "not slow and not packaging", f"--deselect={NOT_THE_LOCK}"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", nargs="+", default=[sys.executable], help="interpreters, by path or name")
    parser.add_argument("--java", nargs="+", default=[os.environ.get("JAVA_HOME", "")], help="Java homes")
    parser.add_argument("--spark", nargs="+", default=["4.0.5", "4.1.4"], help="versions")
    parser.add_argument("--flights", type=int, default=20_000, help="records of each topic")
    parser.add_argument("--unit", action="store_true", help="the unit tests, once for each environment, and no job")
    parser.add_argument("--again", action="store_true", help="also what was run before")
    options = parser.parse_args()
    failed = []
    for spark in options.spark:
        for python in options.python:
            environment = make_environment(python, spark)
            for java_home in options.java[:1] if options.unit else options.java:
                name = f"{environment.name}-{'unit' if options.unit else f'java{java_of(java_home)}'}"
                result = BUILD / f"{name}.xml"
                if result.exists() and not options.again:
                    continue
                words = UNIT if options.unit else JOB
                code = run_tests(environment, java_home, options.flights, result, words)
                print(f"{name}: {'passed' if code == 0 else f'exit code {code}'}", flush=True)
                failed += [name] if code else []
    return 1 if failed else 0


def run_tests(environment: Path, java_home: str, flights: int, result: Path, words: list[str]) -> int:
    variables = {**os.environ, "FLOE_FLIGHTS": str(flights), "PATH": f"{environment}/bin:{os.environ['PATH']}"}
    variables |= {"JAVA_HOME": java_home} if java_home else {}
    variables["PYTHONPATH"] = str(ROOT)  # the code as it is now, whatever it was when the environment was made
    command = [f"{environment}/bin/python", "-m", "pytest", "-q", f"--junit-xml={result}", "-p", "no:cacheprovider"]
    with result.with_suffix(".log").open("wb") as log:
        return subprocess.run(
            [*command, *words], cwd=ROOT, env=variables, stdout=log, stderr=log, check=False
        ).returncode


def java_of(home: str) -> str:
    java = f"{home}/bin/java" if home else "java"
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=True)
    return str(java_major(said.stderr))


def make_environment(python: str, spark: str) -> Path:
    """The environment of the lock with this Spark, made if it is not there."""
    show = "import sys; print('%d.%d' % sys.version_info[:2])"
    version = subprocess.run([python, "-c", show], capture_output=True, text=True, check=True).stdout.strip()
    home = BUILD / f"python{version}-spark{spark}"
    if (home / "complete").exists():
        return home
    print(f"making {home.relative_to(ROOT)}", flush=True)
    wheels, lock = BUILD / "wheels", BUILD / f"constraints-{spark}.lock"
    wheels.mkdir(parents=True, exist_ok=True)
    lock.write_text(without_spark((ROOT / "constraints.lock").read_text(encoding="utf-8")), encoding="utf-8")
    pip = [f"{home}/bin/python", "-m", "pip", "--quiet", "--disable-pip-version-check"]
    install = [*pip, "install", "--no-build-isolation", "--no-deps"]
    subprocess.run([python, "-m", "venv", "--clear", str(home)], check=True)
    # As `.ci/setup` does, every file has a hash of the lock; but for Spark, whose version here is another one.
    build = BUILD / "build.lock"
    build.write_text(entry_of(lock.read_text(encoding="utf-8"), "setuptools"), encoding="utf-8")
    for each in (build, lock):
        subprocess.run([*install, "--require-hashes", "--requirement", str(each)], check=True)
    if not list(wheels.glob(f"pyspark-{spark}-*.whl")):  # 450 MB; built once for all environments
        build_spark = [
            *pip,
            "wheel",
            "--no-build-isolation",
            "--no-deps",
            "--wheel-dir",
            str(wheels),
            f"pyspark=={spark}",
        ]
        subprocess.run(build_spark, check=True)
    subprocess.run([*install, "--no-index", "--find-links", str(wheels), f"pyspark=={spark}"], check=True)
    subprocess.run([*install, "--editable", str(ROOT)], check=True)
    (home / "complete").touch()
    return home


def entry_of(lock: str, name: str) -> str:
    """The line of one package with its hashes."""
    found = re.search(rf"^{name}==[^\n]*\n(?:    --hash[^\n]*\n)+", lock, re.MULTILINE)
    assert found is not None, name
    return found[0]


def without_spark(lock: str) -> str:
    return lock.replace(entry_of(lock, "pyspark"), "")


if __name__ == "__main__":
    sys.exit(main())
