"""A real Prometheus from the system's package, with floe's own alert rules.

In: a folder, where metrics are, and a file of rules. Out: the alerts that fire there. It scrapes and evaluates each second, so
that a test sees within seconds what an operator sees within a minute.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import requests

from framework.local.broker import HOST, free_port


class Prometheus:
    """Runs from `start` to `stop`; skips the test where the system has none."""

    def __init__(self, folder: Path, rules: Path, *metrics: str) -> None:
        program = shutil.which("prometheus")
        if program is None:
            pytest.skip("prometheus is not installed: sudo apt-get install -y prometheus")
        folder.mkdir()
        port = free_port()
        self.url = f"http://{HOST}:{port}"
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(rules)],
            "scrape_configs": [{"job_name": "floe", "static_configs": [{"targets": [*metrics]}]}],
        }
        (folder / "prometheus.yaml").write_text(json.dumps(config))  # JSON is YAML
        self._log = (folder / "log").open("wb")
        command = [program, f"--config.file={folder}/prometheus.yaml", f"--storage.tsdb.path={folder}/data"]
        self._process = subprocess.Popen(
            [*command, f"--web.listen-address={HOST}:{port}"], stdout=self._log, stderr=subprocess.STDOUT
        )

    def firing(self) -> list[dict[str, Any]]:
        """The labels of each alert that fires now."""
        return [each["labels"] for each in self._ask("alerts").get("alerts", []) if each["state"] == "firing"]

    def value(self, query: str) -> float:
        """What a query gives now; 0 for nothing."""
        found = self._ask("query", query=query).get("result", [])
        return float(found[0]["value"][1]) if found else 0.0

    def _ask(self, what: str, **parameters: str) -> dict[str, Any]:
        """An answer of its interface; empty while the server is not there yet."""
        try:
            answer = requests.get(f"{self.url}/api/v1/{what}", params=parameters, timeout=10)
            return dict(answer.json().get("data", {}))
        except (requests.ConnectionError, requests.JSONDecodeError):
            return {}

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(30)
        self._log.close()
