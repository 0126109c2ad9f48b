"""A reviewed plan as a file: what admits a run, and what is said when it does not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from framework.errors import ConfigError
from framework.plan.canonical import plan_hash
from framework.plan.deploy.saved import check_saved, read_saved, render_saved
from tests.unit.plan.test_submit import loaded

SCHEMA = Path(__file__).parents[3] / "schemas" / "saved-plan.v1.schema.json"


def test_the_same_files_are_admitted_wherever_they_lie() -> None:
    """A plan that was saved here admits the same pipelines from another folder, with what the reviewer allowed."""
    text = render_saved([loaded()], ["FLOE-P104", "FLOE-P103"])
    moved = replace(loaded(), file="elsewhere/a.yaml", target=replace(loaded().target, state_dir="/var/floe"))
    assert render_saved([moved], ["FLOE-P103", "FLOE-P104"]) == text
    saved = read_saved(text, "plan.json")
    check_saved([moved], saved, "plan.json")
    assert saved.allowed == ("FLOE-P103", "FLOE-P104")
    assert saved.hash == plan_hash([loaded()])


def test_a_bare_hash_is_enough() -> None:
    """A file with the hash alone, such as the first line of `floe submit --print`, admits what it is the hash of."""
    check_saved([loaded()], read_saved(f"# {plan_hash([loaded()])}\n", "review.txt"), "review.txt")
    with pytest.raises(ConfigError, match="nor a sha256"):
        read_saved("fine with me", "review.txt")


def test_a_refusal_shows_both_hashes_and_the_first_difference() -> None:
    """Whoever is refused sees what was reviewed, what the files make now, and where they differ."""
    saved = read_saved(render_saved([loaded()]), "plan.json")
    spec = loaded().spec
    now = replace(loaded(), spec=replace(spec, trigger_every_ms=5_000))
    with pytest.raises(ConfigError) as raised:
        check_saved([now], saved, "plan.json")
    assert raised.value.message == (
        f"the files give {plan_hash([now])}, but {saved.hash} was reviewed; the first difference is "
        "in pipeline pizzas, plan.announce.trigger_every_ms: 180000 -> 5000"
    )
    assert (raised.value.code, raised.value.exit_code) == ("FLOE-P001", 2)
    with pytest.raises(ConfigError, match="in the list of pipelines: pizzas -> pizzas, refunds"):
        check_saved([loaded(), loaded(name="refunds")], saved, "plan.json")


def test_a_changed_file_is_refused() -> None:
    """A saved plan whose content does not make its hash admits nothing."""
    text = render_saved([loaded()]).replace("shop.refunds", "shop.others")
    with pytest.raises(ConfigError, match="was edited"):
        read_saved(text, "plan.json")
    with pytest.raises(ConfigError, match="is damaged"):
        read_saved('{"kind": "SavedPlan"}', "plan.json")


def test_the_file_is_as_its_schema_says() -> None:
    """Every saved plan validates against the published schema, which allows nothing else."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    document = json.loads(render_saved([loaded()], ["FLOE-P103"]))
    assert [error.message for error in Draft202012Validator(schema).iter_errors(document)] == []
    assert list(Draft202012Validator(schema).iter_errors({**document, "password": "x"}))
