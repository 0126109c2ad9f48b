"""The tests of everything that touches Iceberg, with another version of PyIceberg: `make pyiceberg VERSION=0.12.1`.

In: a version, or whatever else pip installs by that name (a folder, a wheel). Out: pytest's own result. The version
lies in a folder of its own under `build/`, before the locked one on the path; the environment stays as it is.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = ("tests/iceberg", "tests/unit/adapters", "tests/unit/table")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version")
    parser.add_argument("tests", nargs="*", default=TESTS)
    given = parser.parse_args()
    name = Path(given.version).name if os.sep in given.version else given.version
    folder = ROOT / "build" / f"pyiceberg-{name}"
    wanted = given.version if os.sep in given.version else f"pyiceberg=={given.version}"
    if not folder.exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), wanted]
        if (status := subprocess.run(pip, check=False).returncode) != 0:
            return status
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}
    ask = "import pyiceberg; print(f'PyIceberg {pyiceberg.__version__} from {pyiceberg.__file__}')"
    said = subprocess.run(
        [sys.executable, "-c", ask], env=environment, check=True, capture_output=True, text=True
    ).stdout
    print(said, end="", flush=True)
    if str(folder) not in said:
        print(f"{folder} does not come first on the path", file=sys.stderr)
        return 3
    return subprocess.run(
        [sys.executable, "-m", "pytest", *given.tests], cwd=ROOT, env=environment, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
