"""What floe is installed from and built with has hashes, and an install checks them."""

from __future__ import annotations

import re
import runpy
import subprocess
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LISTS = {
    "constraints.txt": "constraints.lock",
    ".ci/tools.in": ".ci/tools.lock",
    ".ci/mutation.in": ".ci/mutation.lock",
    ".ci/servers.in": ".ci/servers.lock",
    ".ci/release.in": ".ci/release.lock",
    ".ci/engines.in": ".ci/engines.lock",
}
# Where pip is started, and what it may install without a hash of ours: what a team builds and names itself.
INSTALLS = {
    ".ci/setup": "",
    ".ci/release": "",
    "Makefile": "",
    "testbed/servers/s3.py": "",
    "testbed/servers/wheels.py": "",
    "tests/mutation_run.py": "",
    "tests/versions.py": "another version of Spark alone",
    "tests/pyiceberg_version.py": "another version of PyIceberg, which a person names",
    "tests/unit/local/test_wheel.py": "the wheel that was built, without an index",
    "framework/deploy/package/archive.py": "what a team's own requirements name",
}
ENTRY = re.compile(r"^(?P<line>[^\s#][^\\\n]*?)(?P<hashes>(?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", re.MULTILINE)


def pinned(text: str) -> list[tuple[str, str]]:
    lines = [Requirement(line) for line in text.splitlines() if line and not line.startswith("#")]
    return [(canonicalize_name(one.name), str(one.specifier)) for one in lines]


@pytest.mark.parametrize("source", LISTS)
def test_each_pinned_line_has_hashes(source: str) -> None:
    """The lock has the lines of its list, in order, each with the hashes of its files, and nothing else."""
    lock = (ROOT / LISTS[source]).read_text(encoding="utf-8")
    found = list(ENTRY.finditer(lock))
    assert pinned("\n".join(each["line"] for each in found)) == pinned((ROOT / source).read_text(encoding="utf-8"))
    assert [line for line in ENTRY.sub("", lock).splitlines() if line and not line.startswith("#")] == []


@pytest.mark.parametrize("source", LISTS)
def test_every_version_is_pinned(source: str) -> None:
    """A list names versions, never ranges."""
    assert all(re.fullmatch(r"==[0-9][^,*]*", version) for _, version in pinned((ROOT / source).read_text()))


def test_every_install_checks_hashes() -> None:
    """Wherever the project starts pip to install something, it takes files with known hashes alone, or the table above
    says what else; a new place is found."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    files = [name for name in listed if name.endswith((".py", ".sh")) or name == "Makefile" or name.startswith(".ci/")]
    starts = re.compile(r'-m pip install|"pip", "install"|\*pip, "install"')
    found = {
        name
        for name in files
        if name != "tests/security/test_lock.py"
        and any(
            starts.search(line) and not re.search(r"remedy|f'|return f|`", line)
            for line in (ROOT / name).read_text(encoding="utf-8").splitlines()
        )
    }
    assert found == set(INSTALLS)
    for name in (name for name, what in INSTALLS.items() if what in ("", "another version of Spark alone")):
        assert "--require-hashes" in (ROOT / name).read_text(encoding="utf-8"), name


def test_the_stamp_of_the_environment_knows_every_compiled_module() -> None:
    """A C file that changes makes the environment anew: the stamp names all that setup.py builds."""
    script = next(line for line in (ROOT / ".ci" / "setup").read_text().splitlines() if line.startswith("want="))
    (command,) = re.findall(r"\$\((find [^)]*)\)", script)
    named = set(subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, text=True).stdout.split())
    built = re.findall(r'compiled\("([\w.]+)", "(\w+)"', (ROOT / "setup.py").read_text())
    assert len(built) == 4
    assert named == {f"framework/{package.replace('.', '/')}/{name}.c" for package, name in built}


def test_a_line_is_for_the_pythons_that_can_have_it() -> None:
    """A version that an older Python cannot have is left out there; what a list says itself stays."""
    marker_of = runpy.run_path(str(ROOT / ".ci" / "lock"))["marker_of"]
    assert marker_of(Requirement("a==1"), [{"requires-python": ">=3.11"}]) == ' ; python_version >= "3.11"'
    assert marker_of(Requirement("a==1"), [{"requires-python": ">=3.8"}, {}]) == ""
    assert marker_of(Requirement('a==1 ; python_version < "3.11"'), [{}]) == ' ; python_version < "3.11"'
