"""The plain manifests beside the chart: what `helm template` makes with the chart's own values.

In: deploy/kubernetes/floe. Out: the text of deploy/kubernetes/floe.yaml, which `python -m tests.kubernetes.manifests` writes.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import yaml

from testbed.servers.kubernetes.programs import helm

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
PLAIN = FOLDER / "floe.yaml"
HEAD = "# Made of the chart in floe/ with its own values; change that, then `python -m tests.kubernetes.manifests`.\n"


def template(*words: str) -> str:
    """The chart's manifests, with `helm template`'s further words."""
    return run_helm("template", "floe", str(FOLDER / "floe"), "--namespace", "floe", *words)


def run_helm(*words: str) -> str:
    answer = subprocess.run([str(helm() / "helm"), *words], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def plain() -> str:
    return HEAD + template()


def documents(text: str) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(text) if each]


if __name__ == "__main__":
    PLAIN.write_text(plain(), encoding="utf-8")
