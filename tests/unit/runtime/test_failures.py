"""Errors of tasks as the driver gets them: text out of Java, in which a task's own are told from what records say."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

import pytest

from framework.errors import AccountingError, FloeError, RetriableError, SetupError, TableBlocked
from framework.runtime.retry_policy import ErrorStreak, gives_up, holds_batches, is_outage, pause_s
from framework.task.failures import is_known, of_batch, of_ended_keys, of_task
from framework.task.reported_failure import TaskFailure, reporting

TRACE = """An error occurred while calling o52.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times:
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "spark_stage.py", line 120, in run_slices
%s

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:581)
"""


def crossed(error: Exception) -> RuntimeError:
    """An error that a task raises, as the driver gets it."""

    def task(_batches: object) -> Iterator[object]:
        yield 1
        raise error

    with pytest.raises((TaskFailure, type(error))) as raised:
        list(reporting(task)(iter(())))
    return RuntimeError(TRACE % "".join(traceback.format_exception(raised.value)))


@pytest.mark.parametrize(
    ("error", "outage"),
    [
        (RetriableError("the registry is silent: x", code="FLOE-R141", place="http://r"), True),
        (SetupError("the registry refuses: 401", code="FLOE-E112", place="http://r"), False),
        (RetriableError("not permitted while fetching a-0", code="FLOE-E103", place="broker:9092"), False),
        (AccountingError("one row is missing", code="FLOE-R108", place="shop.orders"), False),
    ],
)
def test_errors_of_tasks_keep_their_meaning(error: FloeError, outage: bool) -> None:
    """An outage of the registry is waited out like the broker's; a refusal stops the run, with its own exit code."""
    got = of_task(crossed(error))
    assert type(got) is type(error)
    assert (got.code, got.place, got.message) == (error.code, error.place, error.message)
    assert is_outage(got) is outage
    assert is_known(crossed(error))


def test_a_registry_is_waited_for_as_long_as_it_is_away() -> None:
    """An outage of an hour, or of a day, stops no pipeline that runs without an end: tries follow each other by at most
    ten seconds. A run to a fixed end, for which somebody waits, ends after an hour, as others do."""
    silent = RetriableError("the schema registry does not answer", code="FLOE-R141", place="http://r")
    broker = RetriableError("no broker", code="FLOE-E101", place="b:9092")
    now_s, failures = 0.0, 1
    while now_s < 86_400:
        assert not gives_up(silent, ErrorStreak(failures, 0.0), now_s, has_an_end=False)
        now_s, failures = now_s + pause_s(failures, 600.0), failures + 1
    assert failures > 86_400 / 10
    assert not gives_up(silent, ErrorStreak(400, 0.0), 3_600.0, has_an_end=True)
    assert gives_up(silent, ErrorStreak(400, 0.0), 3_601.0, has_an_end=True)
    assert gives_up(broker, ErrorStreak(400, 0.0), 3_601.0, has_an_end=False)


def test_lost_deletes_in_a_task_hold_the_pipeline() -> None:
    """A task that finds a damaged file of deleted keys is a table in trouble, with its own remedy, and no failed
    batch."""
    remedy = "the batch waits and is tried again"
    lost = TableBlocked("the deleted keys: damaged", code="FLOE-R146", place="shop.orders", remedy=remedy)
    error = of_task(crossed(lost))
    assert isinstance(error, TableBlocked)
    assert (error.code, error.place, error.remedy) == ("FLOE-R146", "shop.orders", remedy)
    assert holds_batches(error)


def test_other_errors_of_tasks_stay_as_they_were() -> None:
    """Any other failure of a task is no matter of the registry."""
    assert of_task(crossed(ValueError("no"))) is None


@pytest.mark.parametrize(
    ("error", "reported"),
    [
        (ValueError("a-secret"), "a batch failed: ValueError"),
        (RuntimeError(TRACE % "what: a-secret"), "a batch failed: org.apache.spark.api.python.PythonException"),
        (RuntimeError("[CAST_INVALID_INPUT] The value 'a-secret'"), "a batch failed: the run's own log says why"),
        (RuntimeError("[CAST_INVALID_INPUT] 'x\nOSError: a-secret'"), "a batch failed: OSError"),
        (FloeError("it says a-secret", code="FLOE-R001", reported="it says something"), "a batch failed: it says something"),
        (OSError(28, "No space left on device"), None),
        (RuntimeError("Job aborted due to stage failure: ExecutorLostFailure"), None),
        (RuntimeError("java.lang.OutOfMemoryError: Java heap space"), None),
    ],
)  # fmt: skip
def test_what_is_reported_of_a_failed_batch_quotes_no_record(error: Exception, reported: str | None) -> None:
    """The control topic and the pages get the kind of an error that may quote a record's value; what files, networks and the
    JVM say is told as it is, and the run's own log has all of it."""
    got = of_batch(error if isinstance(error, RuntimeError) else crossed(error))
    assert got.reported == (got.message if reported is None else reported)
    assert "a-secret" not in got.reported


def _of_system() -> set[type[OSError]]:
    found, ahead = set[type[OSError]](), [OSError]
    while ahead:
        found.add(kind := ahead.pop())
        ahead += [each for each in kind.__subclasses__() if each.__module__ == "builtins"]
    return found


class EndpointConnectionError(Exception):
    """As the S3 client's, which is no error of the system to Python."""


@pytest.mark.parametrize("kind", [*_of_system(), EndpointConnectionError], ids=lambda kind: kind.__name__)
def test_an_outage_of_files_or_networks_is_no_matter_of_a_record(kind: type[Exception]) -> None:
    """Whatever the system or a network library says of an outage, in a task or in the driver, no record is looked for
    that would be the cause; the log says what it was."""
    error = kind(17, "Cannot create\ndirectory")
    assert is_known(error)
    assert is_known(crossed(error))
    assert of_batch(crossed(error)).message == f"a batch failed: {type(error).__name__}: {' '.join(str(error).split())}"


@pytest.mark.parametrize(
    "text",
    [
        "x\nOSError: [Errno 28] No space left on device",
        "error[FLOE-R141] the registry is silent (http://r)",
        "x\nframework.errors.SetupError: error[FLOE-E112] the registry refuses: 401 (http://r)",
        "x\nframework.errors.TableBlocked: error[FLOE-R146] lost (shop.orders)\n  remedy: floe discard",
        'x\nframework.task.told_failure.TaskFailure: 00000000000000000000000000000000 {"text": "x", "code": "FLOE-E112"}',
        "x\nrequests.exceptions.ConnectionError: no route to host",
    ],
)
def test_a_record_cannot_speak_for_a_task(text: str) -> None:
    """What Spark quotes of a record's value is no outage, no refusal and no table in trouble, whatever the value says."""
    quoted = RuntimeError(
        TRACE.replace("%s", f"SparkNumberFormatException: [CAST_INVALID_INPUT] The value '{text}' of")
    )
    for error in (quoted, crossed(ValueError(text))):
        assert not is_known(error)
        assert of_task(error) is None


@pytest.mark.parametrize("kind", [OSError, FloeError])
def test_what_a_task_tells_can_be_written_down(kind: type[Exception]) -> None:
    """A name of a file that is no Unicode, in a task's error, never keeps the driver from telling what failed."""
    got = of_batch(crossed(kind("cannot open a\udc80b")))
    assert "cannot open a?b" in got.message
    got.reported.encode()


def test_keys_that_ended_are_named_where_tasks_could_not_use_the_store() -> None:
    """An error of files or networks behind the end of a table's lent keys is FLOE-R157 with the table and a remedy; where the
    catalog does not say when its keys end, the store's word for it counts. What has a code of its own, what a record is to blame
    for, and what came while all keys were good stays what it is."""
    refused = OSError("When uploading part: AWS Error UNKNOWN (HTTP status 400)")
    for error in (refused, crossed(refused)):
        got = of_ended_keys(error, ["shop.orders", "shop.returns"])
        assert isinstance(got, RetriableError)
        assert (got.code, got.place) == ("FLOE-R157", "shop.orders")
        assert got.message.startswith(
            "the keys that the catalog lends for shop.orders and 1 other table ended before the batch"
        )
        assert "HTTP status 400" in got.message
        assert "lend keys for longer" in got.remedy
        assert of_ended_keys(error, []) is None
        assert of_ended_keys(error, [], ["shop.orders"]) is None
    assert of_ended_keys(crossed(FloeError("silent", code="FLOE-R141")), ["shop.orders"]) is None
    assert of_ended_keys(crossed(ValueError("a value")), ["shop.orders"]) is None
    assert of_ended_keys(crossed(ValueError("it has expired")), [], ["shop.orders"]) is None
    for words in (
        "AWS Error UNKNOWN (HTTP status 400): ExpiredToken",
        "The provided token has expired.",
        "The security token included in the request is expired",
        "TokenExpired",
        "Signature not valid in the specified time frame",
    ):
        over = crossed(OSError(f"When uploading part: {words}"))
        assert isinstance(of_ended_keys(over, [], ["shop.orders"]), RetriableError), words
        assert of_ended_keys(over, [], []) is None
    certificate = crossed(OSError("SSL certificate problem: certificate has expired"))
    assert of_ended_keys(certificate, [], ["shop.orders"]) is None
