"""`floe submit` before anything is started: what it shows, what it writes, what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from framework.cli.main import run_main

PASSWORD = "not-in-any-file"
TARGET = """\
apiVersion: floe/v1
kind: Target
metadata: {name: prod}
connections:
  kafka: {main: {bootstrap.servers: "k:9092", sasl.password: "${secret:env:KAFKA_PASSWORD}"}}
  catalog: {default: {type: rest, uri: "https://catalog"}}
spark: {master: "local[2,4]"}
"""
PIPELINE = """\
apiVersion: floe/v1
kind: Pipeline
metadata: {name: NAME}
source: {kafka: {connection: main, topics: [orders]}, format: {type: json}}
routes: {rules: [{table: shop.orders}], unrouted: fail, allow_tables: ["shop.*"]}
errors: {policy: fail}
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two pipelines and a target in a folder of their own, which is the current one; the secret is in the
    environment."""
    (tmp_path / "targets").mkdir()
    (tmp_path / "targets" / "prod.yaml").write_text(TARGET)
    for name in ("orders", "refunds"):
        (tmp_path / f"{name}.yaml").write_text(PIPELINE.replace("NAME", name))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)
    return ["orders.yaml", "refunds.yaml"]


def test_print_writes_nothing_and_shows_the_same_twice(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The command is shown with its hash, is the same each time, and no file is made."""
    before = sorted(Path().rglob("*"))
    shown = []
    for _ in range(2):
        assert run_main(["submit", *files, "--target", "prod", "--print"]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]
    assert shown[0].startswith("# sha256:")
    assert sorted(Path().rglob("*")) == before


def test_no_secret_is_shown_or_written(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Neither the command nor any file that is shipped holds a secret's value."""
    assert run_main(["submit", *files, "--target", "prod", "--stage", "--json"]) == 0
    output = capsys.readouterr().out
    (application,) = json.loads(output)["applications"]
    written = [path for path in Path(application["folder"]).iterdir() if path.is_file()]
    assert {path.suffix for path in written} == {".py", ".zip", ".json", ".properties"}
    assert PASSWORD not in output
    assert not [path for path in written if PASSWORD.encode() in path.read_bytes()]


def test_one_application_each(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Without the option all files share one application, with it each has its own."""
    for options, names in (([], [["orders", "refunds"]]), (["--one-each"], [["orders"], ["refunds"]])):
        assert run_main(["submit", *files, "--target", "prod", "--print", "--json", *options]) == 0
        applications = json.loads(capsys.readouterr().out)["applications"]
        argv = [application["argv"] for application in applications]
        assert [words[words.index("--name") + 1].split()[1:] for words in argv] == names


def test_only_the_reviewed_plan_is_submitted(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The printed hash admits the plan; after a change of the file it does not, and nothing is staged."""
    assert run_main(["submit", *files, "--target", "prod", "--print"]) == 0
    Path("review.txt").write_text(capsys.readouterr().out.splitlines()[0])
    assert run_main(["submit", *files, "--target", "prod", "--print", "--plan", "review.txt"]) == 0
    Path("orders.yaml").write_text(PIPELINE.replace("NAME", "orders").replace("[orders]", "[others]"))
    assert run_main(["submit", *files, "--target", "prod", "--stage", "--plan", "review.txt"]) == 2
    assert "FLOE-P001" in capsys.readouterr().err
    assert not Path(".floe").exists()


def test_maintenance_is_an_application_of_its_own(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """It has a name and a folder of its own, so that nothing that stops it stops the run of the same pipelines, and its
    driver is told which tables; the plan that is shipped is the pipelines' own."""
    shown = []
    for options in ([], ["--maintenance"], ["--maintenance", "--table", "shop.a", "--table", "shop.b*"]):
        assert run_main(["submit", *files, "--target", "prod", "--print", "--json", *options]) == 0
        (application,) = json.loads(capsys.readouterr().out)["applications"]
        shown.append(application)
    run, all_tables, some = shown
    assert run["folder"] != all_tables["folder"] == some["folder"]
    assert run["hash"] == all_tables["hash"]
    names = [application["argv"][application["argv"].index("--name") + 1] for application in shown]
    assert names == ["floe orders refunds", *["floe maintenance orders refunds"] * 2]
    assert all_tables["argv"][-2:] == ["--maintain", "*"]
    assert some["argv"][-4:] == ["--maintain", "shop.a", "--maintain", "shop.b*"]
    assert "--maintain" not in run["argv"]


@pytest.mark.parametrize("options", [["--maintenance", "--until-caught-up"], ["--table", "shop.*"]])
def test_options_that_do_not_go_together_are_refused(files: list[str], options: list[str]) -> None:
    """Maintenance reads nothing that it could catch up with, and a run has no choice of tables."""
    assert run_main(["submit", *files, "--target", "prod", "--print", *options]) == 2
