"""What is wrong with one table is told from an outage of its catalog or its store."""

from __future__ import annotations

import pytest

from framework.table.trouble import OWN_AFTER_S, Failed, FailureVerdict, judge, needs_probes

YOUNG, OLD = 0.0, OWN_AFTER_S


@pytest.mark.parametrize("answers", [True, False])
@pytest.mark.parametrize("others", [True, False])
@pytest.mark.parametrize("writable", [True, False])
@pytest.mark.parametrize("failing_s", [YOUNG, OLD])
def test_what_is_lasting_is_the_tables_own_trouble(
    answers: bool, others: bool, writable: bool, failing_s: float
) -> None:
    """A table of a kind that cannot be written is in trouble by itself, whatever its catalog does, and no probe is
    needed."""
    failed = Failed("ns.t", True, writable, failing_s)
    assert not needs_probes([failed])
    assert judge([failed], answers, others) == {"ns.t": FailureVerdict.AS_KNOWN if writable else FailureVerdict.REFUSED}


@pytest.mark.parametrize(("answers", "others"), [(False, False), (False, True), (True, False)])
def test_an_outage_gives_no_record_up(answers: bool, others: bool) -> None:
    """While the catalog does not answer, or no other table of it can be loaded, nothing is refused, however long it
    lasts."""
    failed = [Failed("ns.t", False, False, 10 * OLD), Failed("ns.u", False, True, 10 * OLD)]
    assert needs_probes(failed)
    assert set(judge(failed, answers, others).values()) == {FailureVerdict.OUTAGE}


def test_a_table_that_fails_alone_is_refused_after_a_while() -> None:
    """Beside tables that can be loaded, one that cannot is waited for, then refused; one that is known is written as it
    was at once, since that gives up nothing."""
    failed = [
        Failed("ns.t", False, False, YOUNG),
        Failed("ns.u", False, False, OLD),
        Failed("ns.v", False, True, YOUNG),
    ]
    assert judge(failed, True, True) == {
        "ns.t": FailureVerdict.WAIT,
        "ns.u": FailureVerdict.REFUSED,
        "ns.v": FailureVerdict.AS_KNOWN,
    }
