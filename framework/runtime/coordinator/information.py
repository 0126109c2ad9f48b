"""What a coordinator publishes to the control topic: gathered during a turn, and appended at once at its end.

In: information events. Out: records in the log, split where they would be too large. Information never ends a
coordinator: what the broker refuses for good is said, and published anew by what follows.
"""

from __future__ import annotations

from collections.abc import Callable

from framework.adapters.host.failpoints import failpoint
from framework.adapters.kafka.control.log import ControlPublisher
from framework.commit.events.event_types import ControlEvent
from framework.commit.events.split import split_information
from framework.diagnose.log_lines import Level, LogLine
from framework.errors import FloeError
from framework.runtime.retry_policy import is_retriable


class Information:
    """Of one serving of a coordinator. One thread only."""

    def __init__(self, kafka: dict[str, str], control_topic: str, say: Callable[[str], None]) -> None:
        self._kafka = kafka
        self._control_topic = control_topic
        self._say = say
        self._waiting: list[ControlEvent] = []
        self._publisher = ControlPublisher(kafka, control_topic)

    def enqueue(self, event: ControlEvent) -> None:
        self._waiting += split_information(event)

    def publish(self) -> None:
        """Append what waits, and wait for the broker once: to wait after each of a thousand commits takes longer than
        they do.

        Raises:
            FloeError: the broker does not answer now.
        """
        if not self._waiting:
            return
        events, self._waiting = self._waiting, []
        try:
            self._publisher.publish(events)
        except FloeError as error:
            if is_retriable(error):
                raise
            self._say(LogLine(f"could not write to the control topic: {error.message}", Level.WARNING))
            self._publisher.close()
            self._publisher = ControlPublisher(self._kafka, self._control_topic)
        failpoint("progress-published")

    def close(self) -> None:
        self._publisher.close()
