"""Values in one buffer are the same values as in a list, for everything that looks at them."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from framework.record.json.framing import frame
from framework.record.value_buffer import JoinedValues, with_value

VALUES = st.lists(
    st.none() | st.sampled_from([b"", b"{}", b'{"a":1}', b"\n", b'{"a":\n1}']) | st.binary(max_size=6), max_size=9
)


def joined(values: list[bytes | None]) -> JoinedValues:
    """The values as the compiled reader gathers them."""
    lengths = [len(value or b"") for value in values]
    starts = np.cumsum([0, *(length + 1 for length in lengths)], dtype=np.int64)
    starts[-1] = max(starts[-1], 1) if values else 1
    missing = np.array([value is None for value in values], dtype=bool)
    data = b"\n".join(value or b"" for value in values)
    newlines = sum((value or b"").count(b"\n") for value in values)
    first = np.array([0], np.int64)
    return JoinedValues(data, starts if values else first, missing if missing.any() else None, newlines)


def looked_at(values: JoinedValues) -> JoinedValues:
    """The same with what the compiled reader says of them."""
    known = [value or b"" for value in values]
    braced = all(v[:1] == b"{" and v[-1:] == b"}" and b"\n" not in v and b"\0" not in v for v in known)
    return replace(values, is_braced=braced, is_ascii=all(map(bytes.isascii, known)))


@given(VALUES)
@example([b"", b""])
@example([None, b"{}", None])
def test_joined_values_are_a_sequence_like_the_list(values: list[bytes | None]) -> None:
    """Length, items, slices, iteration, equality, presence and a pickled copy are those of the plain list."""
    found = joined(values)
    assert len(found) == len(values)
    assert list(found) == values
    assert [found[i] for i in range(len(values))] == values
    assert [found[i - len(values)] for i in range(len(values))] == values
    assert found[1:5:2] == values[1:5:2]
    assert found == values
    assert pickle.loads(pickle.dumps(found)) == values
    assert (
        with_value(found).tolist() == with_value(values).tolist() == [i for i, v in enumerate(values) if v is not None]
    )
    with pytest.raises(IndexError):
        found[len(values)]


@given(
    st.lists(
        st.sampled_from(
            [
                b"{}",
                b'{"a":1}',
                b'{"a":\n1}',
                b'{"i":1,',
                b'"j":2}',
                b'{"i":2}{"i":3}',
                b"\0",
                b"\xff",
                b"{\xff}",
                b'{"a":"\xc3\xa9"}',
            ]
        )
    )
)
@example([b'{"i":1,', b'"j":2}', b'{"i":2}{"i":3}'])
@example([b'{"a":1}\n{"b":2}'])
def test_framing_judges_a_gathered_buffer_as_it_judges_a_list(values: list[bytes]) -> None:
    """A gathered buffer is trusted exactly where the same records, joined one by one, would be."""
    positions = np.arange(len(values)) * 2
    one = frame(values, positions)
    for other in (frame(joined(list(values)), positions), frame(looked_at(joined(list(values))), positions)):
        assert one.data == other.data
        assert one.positions.tolist() == other.positions.tolist()
        assert one.alone == other.alone
        assert one.longest == other.longest
