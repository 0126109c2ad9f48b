"""The functions for other programs: they are those of the page, and cheap to import."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import framework
from framework import api

ROOT = Path(__file__).parents[2]


def test_the_page_names_every_function() -> None:
    """docs/embedding.md has a row for each public function, and each has its types and a docstring."""
    page = (ROOT / "docs" / "embedding.md").read_text()
    assert sorted(re.findall(r"^\| `(\w+)\(", page, re.MULTILINE)) == sorted(api.__all__)
    for name in api.__all__:
        function = getattr(api, name)
        assert function.__doc__
        signature = inspect.signature(function)
        assert signature.return_annotation is not inspect.Signature.empty
        assert all(each.annotation is not inspect.Parameter.empty for each in signature.parameters.values())
    assert set(framework.__all__) == {"__version__", "api", "errors"}


def test_validating_imports_no_engine() -> None:
    """A program that only validates loads neither Spark nor Arrow nor a broker's client, as `floe validate` does."""
    program = (
        "import sys; from framework import api; found = api.validate('pipelines/flights.yaml'); "
        "print(sorted({'pyspark', 'pyarrow', 'confluent_kafka', 'pyiceberg', 'click'} & set(sys.modules)), "
        "[str(each) for each in found if each.is_error])"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] []", done.stdout
