"""Errors of tasks as the driver gets them: text out of Java, from which the registry's are told apart."""

from __future__ import annotations

import re

import pytest

from framework.errors import RetriableError, SetupError, TableBlocked
from framework.runtime.failures import is_known, of_batch, of_task
from framework.runtime.patience import holds_batches, is_outage

TRACE = """An error occurred while calling o52.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times:
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "spark_stage.py", line 120, in run_slices
%s
  remedy: the batch waits and is tried again
"""


@pytest.mark.parametrize(
    ("line", "kind", "outage"),
    [
        ("framework.errors.RetriableError: error[FLOE-R141] the registry is silent: x (http://r)", RetriableError, True),
        ("framework.errors.SetupError: error[FLOE-E112] the registry refuses: 401 (http://r)", SetupError, False),
    ],
)  # fmt: skip
def test_the_registry_s_errors_keep_their_meaning(line: str, kind: type, outage: bool) -> None:
    """An outage of the registry is waited out like the broker's; a refusal stops the run, with its own exit code."""
    error = of_task(RuntimeError(TRACE % line))
    assert type(error) is kind
    assert error is not None
    assert (error.code, error.place) == (re.findall(r"FLOE-[A-Z]\d+", line)[0], "http://r")
    assert f"] {error.message} (" in line
    assert is_outage(error) is outage


def test_lost_deletes_in_a_task_hold_the_pipeline() -> None:
    """A task that finds a damaged file of deleted keys is a table in trouble, with its own remedy, and no failed
    batch."""
    line = "framework.errors.TableBlocked: error[FLOE-R146] the deleted keys cannot be used: damaged (shop.orders)"
    error = of_task(RuntimeError(TRACE % line))
    assert isinstance(error, TableBlocked)
    assert (error.code, error.place, error.remedy) == ("FLOE-R146", "shop.orders", "the batch waits and is tried again")
    assert holds_batches(error)


def test_other_errors_of_tasks_stay_as_they_were() -> None:
    """Any other failure of a task is no matter of the registry."""
    assert of_task(RuntimeError(TRACE % "pyarrow.lib.ArrowInvalid: no")) is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            TRACE % "pyarrow.lib.ArrowInvalid: cannot convert 'a-secret'",
            "a batch failed: org.apache.spark.api.python.PythonException",
        ),
        (TRACE % "ValueError: a-secret", "a batch failed: ValueError"),
        (TRACE % "what: a-secret", "a batch failed: org.apache.spark.api.python.PythonException"),
        (
            TRACE % "framework.errors.RetriableError: error[FLOE-R324] a batch failed: [CAST_INVALID_INPUT] 'a-secret'",
            "a batch failed: framework.errors.RetriableError",
        ),
        ("[CAST_INVALID_INPUT] The value 'a-secret' of the type STRING", "a batch failed: the run's own log says why"),
        (TRACE % "OSError: No space left on device", None),
        ("Job aborted due to stage failure: ExecutorLostFailure", None),
        ("java.lang.OutOfMemoryError: Java heap space", None),
    ],
)
def test_what_others_are_told_of_a_failed_batch_quotes_no_record(text: str, told: str | None) -> None:
    """The control topic and the pages get the kind of an error that may quote a record's value; what files, networks and the
    JVM say is told as it is, and the run's own log has all of it."""
    error = of_batch(RuntimeError(text))
    assert error.told == (error.message if told is None else told)
    assert "a-secret" not in error.told


def _of_system() -> set[type[OSError]]:
    found, ahead = set[type[OSError]](), [OSError]
    while ahead:
        found.add(kind := ahead.pop())
        ahead += [each for each in kind.__subclasses__() if each.__module__ == "builtins"]
    return found


@pytest.mark.parametrize(
    "line",
    [
        *(f"{kind.__name__}: [Errno 17] Cannot create directory 'data'" for kind in _of_system()),
        "requests.exceptions.ConnectionError: no route to host",
        "requests.exceptions.ReadTimeout: 60 s",
        "botocore.exceptions.EndpointConnectionError: Could not connect",
        "urllib3.exceptions.ReadTimeoutError: 60 s",
    ],
)
def test_an_outage_of_files_or_networks_is_no_matter_of_a_record(line: str) -> None:
    """Whatever the system or a network library says of an outage, no record is looked for that would be the cause."""
    assert is_known(RuntimeError(TRACE % line))


def test_errors_of_the_driver_s_own_files_are_known() -> None:
    """An error of the system that the driver meets itself has no traceback as text, and is known all the same."""
    assert all(is_known(kind(17, "File exists")) for kind in _of_system())


@pytest.mark.parametrize("line", ["ValueError: OSError: is text of a record", "pyarrow.lib.ArrowInvalid: Timeout: x"])
def test_what_a_record_says_is_no_outage(line: str) -> None:
    """An error of a value stays one of a record, whatever the value says."""
    assert not is_known(RuntimeError(TRACE % line))
