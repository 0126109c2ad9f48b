"""Kafka with TLS, SCRAM, client certificates and an authorizer: the least set of grants, and teams that are kept
apart."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control.log import ControlPublisher, ControlReader, CoordinatorLeadership
from framework.adapters.kafka.control.record_time import RecordTimes
from framework.adapters.kafka.control.topic import check_control_topic, ensure_control_topic
from framework.adapters.kafka.control.transactions import PipelineProducer
from framework.adapters.kafka.fetch import RangeFetcher
from framework.commit.dead_letter_replay import replay_name
from framework.commit.events.event_types import Accounting, CommitRequested, Heartbeat, SourceRange
from framework.config.spec import (
    KafkaSourceSpec,
    LoadedPipeline,
    PipelineSpec,
    RouteRule,
    RoutesSpec,
    SourceSpec,
    TargetSpec,
)
from framework.errors import FloeError, SetupError
from framework.plan.compile import compile_plan
from framework.plan.grants.kafka import control_topic_grants, grants_for, looking_grants, replay_grants
from framework.plan.model import Plan
from framework.record.model import TaskRange
from tests.project import Project
from tests.secured_broker import SecuredBroker

pytestmark = [pytest.mark.kafka]

PASSWORD = "not-in-any-log"
RECORDS = 20


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    broker = SecuredBroker(tmp_path_factory.mktemp("secured"))
    try:
        yield broker
    finally:
        broker.stop()


def plan_of(prefix: str, pipeline: str, topic: str) -> Plan:
    """The plan of a pipeline with a control topic of its own team."""
    source = SourceSpec(KafkaSourceSpec("main", (topic,)))
    spec = PipelineSpec(pipeline, source, RoutesSpec((RouteRule("a.b"),)), control_topic=f"{prefix}-control")
    target = TargetSpec("t", {"main": {}}, {"default": {}}, prefix=prefix)
    return compile_plan(LoadedPipeline("a.yaml", spec, target))


class Team:
    """A principal, its plan, a source topic with records, and a control topic that an administrator made."""

    def __init__(self, secured: SecuredBroker, name: str, settings: Mapping[str, str]) -> None:
        self.name = name
        self.settings = dict(settings)
        self.topic = secured.plain.new_topic(f"{name}-source")
        secured.plain.produce(self.topic, [{"n": n} for n in range(RECORDS)])
        self.plan = plan_of(name, "orders", self.topic)
        administrator = KafkaAdmin({"bootstrap.servers": secured.plain.bootstrap_servers})
        ensure_control_topic(administrator, self.plan.announce.control_topic)
        self.grants = grants_for([self.plan])


def with_password(secured: SecuredBroker, name: str) -> dict[str, str]:
    return {**secured.password_user(name, PASSWORD), "sasl.password": PASSWORD}


def do_all(settings: Mapping[str, str], plan: Plan) -> None:
    """Everything that a run asks of Kafka, through the doors that a run uses. Raises what a run would end with."""
    control, group = plan.announce.control_topic, plan.read.group_id
    (topic,) = plan.read.topics
    admin = KafkaAdmin(settings)
    check_control_topic(admin, control)
    facts = admin.topics([topic])[topic]
    producer = PipelineProducer(settings, plan.announce.transactional_id, group, control)
    reader = ControlReader(settings, control)
    publisher = ControlPublisher(settings, control)
    leadership = CoordinatorLeadership(settings, plan.commit.coordinator_group, control)
    event = CommitRequested("r", plan.pipeline, 1)
    try:
        producer.start()
        admin.group_offsets(group)
        records = sum(
            len(block.offsets)
            for block in RangeFetcher(settings, 10.0).fetch(TaskRange(topic, facts.topic_id, 0, 0, RECORDS))
        )
        assert records == RECORDS
        producer.announce((event,), {(topic, 0): (RECORDS, "")})
        publisher.publish((event,))
        reader.seek(0)
        limit = time.monotonic() + 20
        while not reader.poll(0.5):  # what is committed is shown once the broker has marked it, a moment later
            assert time.monotonic() < limit, "no announcement within 20 s"
        while not leadership.owned:
            leadership.poll(0.5)
            assert time.monotonic() < limit, "no leadership within 20 s"
        leadership.store_low_water(0)
    finally:
        for client in (producer, reader, publisher, leadership):
            client.close()


def test_the_least_set_is_sufficient(secured: SecuredBroker) -> None:
    """With the listed grants and nothing else, every request that a run makes is answered."""
    team = Team(secured, "enough", with_password(secured, "enough"))
    secured.grant("enough", team.grants)
    assert secured.grants_of("enough") == len(team.grants)
    do_all(team.settings, team.plan)


def test_who_only_looks_does_not_wait_for_records_that_are_refused(secured: SecuredBroker) -> None:
    """The times of records in a topic that may not be read do not come, and that is known at once; those of another topic
    come. It is tried again, since a right can be given."""
    team = Team(secured, "blind", with_password(secured, "blind"))
    other = Team(secured, "sees", with_password(secured, "blind"))
    [reads] = [each for each in team.grants if each.name == team.topic and each.operation == "Read"]
    secured.grant("blind", [*other.grants, replace(reads, operation="Describe")])
    times = RecordTimes(team.settings)
    refused, allowed = ((team.topic, 0), 0), ((other.topic, 0), 0)
    began = time.monotonic()
    assert set(times.of([refused, allowed], timeout_s=120)) == {allowed}
    assert time.monotonic() - began < 60
    secured.grant("blind", [reads])
    limit = time.monotonic() + 20
    while refused not in times.of([refused]):
        assert time.monotonic() < limit, "no time within 20 s of the grant"
    times.close()


@pytest.mark.slow
def test_a_replay_needs_its_own_grants(secured: SecuredBroker) -> None:
    """What a run needs is not enough for a replay: it is refused without either of its own two grants, and done with
    both."""
    team = Team(secured, "again", with_password(secured, "again"))
    secured.grant("again", team.grants)
    further = replay_grants([team.plan])
    for grant in further:
        secured.grant("again", [grant])
        with pytest.raises(FloeError, match="uthorization"):
            do_replay(team, grant.resource.value)
        secured.revoke("again", [grant])
    secured.grant("again", further)
    do_replay(team, "both")


def do_replay(team: Team, client: str) -> None:
    """What a replay of one table asks of Kafka beyond a run: announce as a pipeline of its own, and move its own
    offsets."""
    name = replay_name(team.plan.announce.transactional_id) + ".1"
    settings = {**team.settings, "client.id": f"replay-{client}"}
    producer = PipelineProducer(settings, name, name, team.plan.announce.control_topic)
    try:
        producer.start()
        producer.announce((CommitRequested("r", "orders.replay.1", 1),), {(team.topic, 0): (RECORDS, "")})
        assert KafkaAdmin(settings).group_offsets(name)
    finally:
        producer.close()


def test_each_grant_is_necessary(secured: SecuredBroker) -> None:
    """By client certificate, too, the listed grants are enough; without any one of them a run is refused with an error
    that says so."""
    team = Team(secured, "each", secured.certificate_user("each"))
    secured.grant("each", team.grants)
    do_all(team.settings, team.plan)
    for grant in team.grants:
        secured.revoke("each", [grant])
        # A process keeps its consumer; a new address of the same broker makes a new one, as a new process would.
        with pytest.raises(FloeError) as raised:
            do_all({**team.settings, "client.id": f"without-{grant.operation}-{grant.resource.value}"}, team.plan)
        assert "uthorization" in raised.value.message or "permitted" in raised.value.message, (grant, raised.value)
        secured.grant("each", [grant])
    do_all(team.settings, team.plan)


def test_the_first_run_may_make_the_control_topic(secured: SecuredBroker) -> None:
    """With Create on its name the control topic is made by the run; without it the error says who can."""
    settings = secured.certificate_user("first")
    plan = plan_of("first", "orders", secured.plain.new_topic("first"))
    with pytest.raises(SetupError):
        ensure_control_topic(KafkaAdmin(settings), plan.announce.control_topic)
    secured.grant("first", [*grants_for([plan]), *control_topic_grants([plan])])
    assert ensure_control_topic(KafkaAdmin(settings), plan.announce.control_topic).created


def test_two_teams_cannot_touch_each_other(secured: SecuredBroker) -> None:
    """A team's principal cannot read another's offsets, fence its runs, read or write its announcements, take its
    leadership."""
    left = Team(secured, "left", with_password(secured, "left"))
    right = Team(secured, "right", with_password(secured, "right"))
    for team in (left, right):
        secured.grant(team.name, team.grants)
        do_all(team.settings, team.plan)
    other, mine = right.plan, left.settings
    producer = PipelineProducer(
        mine, other.announce.transactional_id, other.read.group_id, other.announce.control_topic
    )
    attempts = [
        lambda: KafkaAdmin(mine).group_offsets(other.read.group_id),
        lambda: check_control_topic(KafkaAdmin(mine), other.announce.control_topic),
        lambda: KafkaAdmin(mine).topics([right.topic]),
        lambda: ControlPublisher(mine, other.announce.control_topic).publish((CommitRequested("r", "orders", 1),)),
        producer.start,
    ]
    for attempt in attempts:
        with pytest.raises(SetupError) as raised:
            attempt()
        assert raised.value.code == "FLOE-E103"
    # The other's run was not fenced by any of this.
    do_all(right.settings, right.plan)


@pytest.mark.parametrize("wrong", ["password", "authority"])
def test_wrong_credentials_are_distinguished(secured: SecuredBroker, wrong: str, tmp_path: Path) -> None:
    """A wrong password and an authority that did not sign the broker's certificate are named, and no secret is
    shown."""
    settings = with_password(secured, "known")
    if wrong == "password":
        settings["sasl.password"] = "wrong-and-not-shown"
    else:
        settings.pop("ssl.ca.location")
    with pytest.raises(SetupError) as raised:
        KafkaAdmin(settings).check()
    assert raised.value.code == "FLOE-E102"
    assert settings["sasl.password"] not in str(raised.value)


def secured_project(root: Path, secured: SecuredBroker, settings: Mapping[str, str]) -> Project:
    """A project whose target connects with these settings; the password is a reference."""
    project = Project(root, secured.plain.bootstrap_servers)
    file = root / "pipelines" / "targets" / "it.yaml"
    lines = "".join(f'      {key}: "{value}"\n' for key, value in settings.items())
    lines += '      sasl.password: "${secret:env:TEAM_PASSWORD}"\n'
    old = f'      bootstrap.servers: "{secured.plain.bootstrap_servers}"\n'
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, lines))
    return project


PIPELINE = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      format: {{type: json}}
      metadata_columns: [topic, partition, offset]
    routes: {{rules: [{{table: shop.orders}}], unrouted: fail, allow_tables: ["shop.*"]}}
    tables: {{defaults: {{commit: {{interval: 1s}}}}}}
    errors: {{policy: fail}}
"""


def test_doctor_lists_what_is_granted_and_what_is_not(secured: SecuredBroker, tmp_path: Path) -> None:
    """`floe doctor FILE` names the grant that is missing with the command that grants it, and no password."""
    project = secured_project(tmp_path, secured, secured.password_user("sick", PASSWORD))
    topic = secured.plain.new_topic("sick")
    plan = replace_names(plan_of(project.prefix, "orders", topic), project.control_topic)
    ensure_control_topic(KafkaAdmin({"bootstrap.servers": secured.plain.bootstrap_servers}), project.control_topic)
    grants = grants_for([plan])
    missing = next(grant for grant in grants if grant.name == plan.commit.coordinator_group)
    secured.grant("sick", [grant for grant in grants if grant != missing])
    file = project.pipeline("orders", PIPELINE.format(topic=topic))
    environment = {"TEAM_PASSWORD": PASSWORD}

    output = project.run("doctor", file, "--no-spark", "--json", code=3, env=environment)

    findings = json.loads(output[output.index("{") :])["findings"]
    errors = [finding for finding in findings if finding["state"] == "error"]
    assert [finding["check"] for finding in errors] == ["kafka main grant"]
    assert missing.name in errors[0]["message"]
    assert errors[0]["remedy"].startswith("kafka-acls.sh ")
    assert PASSWORD not in output
    secured.grant("sick", [missing])
    project.run("doctor", file, "--no-spark", env=environment)


def test_a_missing_grant_turns_the_lines_of_readiness_that_need_it(secured: SecuredBroker, tmp_path: Path) -> None:
    """Without the right to take the leadership its line fails, and with it those of which it decides: a run would be refused,
    and who coordinates is not known. No other line says anything else; two need what no run needs, the settings of the
    source's topics."""
    project = secured_project(tmp_path, secured, secured.password_user("almost", PASSWORD))
    topic = secured.plain.new_topic("almost")
    plan = replace_names(plan_of(project.prefix, "orders", topic), project.control_topic)
    ensure_control_topic(KafkaAdmin({"bootstrap.servers": secured.plain.bootstrap_servers}), project.control_topic)
    grants = grants_for([plan])
    missing = next(grant for grant in grants if grant.name == plan.commit.coordinator_group)
    owners = "    owners: {pipeline: a, schema: a, catalog: a, topics: a, cut_over: a}\n"
    file = project.pipeline("orders", PIPELINE.format(topic=topic) + owners)

    def verdicts() -> dict[str, str]:
        words = ("readiness", file, "--no-spark", "--format", "json")
        output = project.run(*words, code=10, env={"TEAM_PASSWORD": PASSWORD})
        document = json.loads(output[output.index("{\n") :])
        return {each["name"]: each["verdict"] for each in document["checks"]}

    secured.grant("almost", [grant for grant in grants if grant != missing])
    without = verdicts()
    secured.grant("almost", [missing])
    whole = verdicts()
    assert {name for name in whole if whole[name] != without[name]} == {"grants", "plan", "control-retention"}
    assert without["grants"] == "fail"
    assert {name for name, found in whole.items() if found == "fail"} == {"source-retention", "outage"}


def replace_names(plan: Plan, control_topic: str) -> Plan:
    """The plan with another control topic, and the coordinator's group that belongs to it."""
    from framework.plan.compile import coordinator_group

    prefix = plan.read.group_id.rpartition("-")[0]
    return replace(
        plan,
        announce=replace(plan.announce, control_topic=control_topic),
        coordinator_group=coordinator_group(prefix, control_topic),
    )


@pytest.mark.spark
@pytest.mark.iceberg
def test_a_whole_run_on_a_secured_broker(secured: SecuredBroker, tmp_path: Path) -> None:
    """The job runs with a password by reference and the least set of grants: each record once, the password nowhere."""
    project = secured_project(tmp_path, secured, secured.password_user("runner", PASSWORD))
    topic = secured.plain.new_topic("runner", partitions=2)
    secured.plain.produce(topic, [{"id": n} for n in range(500)])
    ensure_control_topic(KafkaAdmin({"bootstrap.servers": secured.plain.bootstrap_servers}), project.control_topic)
    plan = replace_names(plan_of(project.prefix, "orders", topic), project.control_topic)
    secured.grant("runner", grants_for([plan]))
    file = project.pipeline("orders", PIPELINE.format(topic=topic))

    output = project.run("run", file, "--until-caught-up", env={"TEAM_PASSWORD": PASSWORD})

    counts = project.positions(["shop.orders"])
    assert len(counts) == 500
    assert set(counts.values()) == {1}
    assert PASSWORD not in output
    logs = (project.root / ".floe").rglob("*")
    assert not [path for path in logs if path.is_file() and PASSWORD.encode() in path.read_bytes()]


def test_who_only_looks_needs_less(secured: SecuredBroker, tmp_path: Path) -> None:
    """`floe status`, `floe log` and `floe plan` are answered with the listed grants; without any one of them `status` is refused,
    and names the topic or group."""
    project = secured_project(tmp_path, secured, secured.password_user("looker", PASSWORD))
    topic = secured.plain.new_topic("looker", partitions=2)
    secured.plain.produce(topic, [{"id": n} for n in range(10)])
    admin = KafkaAdmin({"bootstrap.servers": secured.plain.bootstrap_servers})
    ensure_control_topic(admin, project.control_topic)
    plan = replace_names(plan_of(project.prefix, "orders", topic), project.control_topic)
    file = project.pipeline("orders", PIPELINE.format(topic=topic))
    own = ControlPublisher({"bootstrap.servers": secured.plain.bootstrap_servers}, project.control_topic)
    begin = tuple(SourceRange(topic, admin.topics([topic])[topic].topic_id, number, 0, 0) for number in (0, 1))
    own.publish((Heartbeat("orders", "run-1", 0, begin, Accounting()),))
    own.close()
    grants = looking_grants([plan])
    environment = {"TEAM_PASSWORD": PASSWORD}

    secured.grant("looker", grants)
    for words in (("status",), ("log",), ("plan", file)):
        assert "authorization failed" not in project.run(*words, code=None, env=environment)
    for grant in grants:
        secured.revoke("looker", [grant])
        refused = project.run("status", code=3, env=environment)
        assert refused.startswith("error[FLOE-E103]"), grant
        assert grant.name in refused
        secured.grant("looker", [grant])
