"""floe inside of another program: the page's own program runs, and does what the verbs do."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Broker
from tests.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg]

PAGE = (Path(__file__).parents[2] / "docs" / "embedding.md").read_text()
TEXT = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      format: {{type: json}}
    routes: {{rules: [{{table: shop.orders}}], allow_tables: ["shop.*"]}}
    errors: {{dead_letter_table: shop.dead_letters}}
"""


def test_the_program_of_the_page_lands_a_topic(tmp_path: Path, broker: Broker) -> None:
    """The program in docs/embedding.md runs as it stands, and its rows are in the table; over a wrong file it ends as
    `floe` does."""
    project = Project(tmp_path / "project", broker.bootstrap_servers)
    topic = broker.new_topic("orders")
    broker.produce(topic, [f'{{"id": {i}}}'.encode() for i in range(100)])
    file = project.pipeline("orders", TEXT.format(topic=topic))
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    of_this_test = f'"it", control_topic="{project.control_topic}"'
    program = program.replace('status("prod")', f"status({of_this_test})").replace('"prod"', '"it"')
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=project.root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "orders caught up 100" in done.stdout, done.stdout
    assert re.search(r"^shop\.orders [A-Z]+$", done.stdout, re.MULTILINE)
    assert sorted(project.table("shop.orders").column("id").to_pylist()) == list(range(100))
    file.write_text(file.read_text().replace("routes:", "rutes:"))
    wrong = subprocess.run(
        [sys.executable, "-c", program], cwd=project.root, capture_output=True, text=True, check=False
    )
    assert wrong.returncode == 2
    assert re.search(r"^pipelines/orders.yaml:\d+:\d+: error\[FLOE-C201\] .*rutes", wrong.stderr, re.MULTILINE), (
        wrong.stderr
    )
    assert "Traceback" not in wrong.stderr
