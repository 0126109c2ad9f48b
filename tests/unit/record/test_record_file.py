"""Files of records as people have them are read without loss, whatever their form."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.record.proposal.record_file import CSV, JSON_LINES, JSON_LIST, JSON_VALUES, read_records

_VALUES = st.dictionaries(
    st.text(max_size=5), st.none() | st.booleans() | st.integers() | st.text(max_size=8), max_size=3
)


@given(st.lists(_VALUES, min_size=1, max_size=5), st.sampled_from((None, 2)), st.booleans())
def test_json_is_read_in_each_form(values: list[object], indent: int | None, is_list: bool) -> None:
    """One value a line, a list, and values of several lines give the values that were written, in their order."""
    text = json.dumps(values, indent=indent) if is_list else "\n".join(json.dumps(one, indent=indent) for one in values)

    assert [json.loads(value) for value in read_records(text.encode()).values] == values


@pytest.mark.parametrize(
    ("text", "form", "values"),
    [
        ('{"a": 1.50}\n{"a": 2}\n', JSON_LINES, ['{"a": 1.50}', '{"a": 2}']),
        ('\ufeff{"a": 1}', JSON_LINES, ['{"a": 1}']),
        ('{"a": 1}\nno json\n', JSON_LINES, ['{"a": 1}', "no json"]),
        ('[{"a": 1.50},\n {"a": 2}]', JSON_LIST, ['{"a": 1.50}', '{"a": 2}']),
        ('[{"a": 1}, {"a": 2}]\n', JSON_LIST, ['{"a": 1}', '{"a": 2}']),
        ('{\n "a": 1\n}\n{\n "a": 2\n}', JSON_VALUES, ['{\n "a": 1\n}', '{\n "a": 2\n}']),
        ('id,note\n1,"a, b"\n2,\n', CSV, ['{"id": 1, "note": "a, b"}', '{"id": 2, "note": null}']),
        (
            "zip;total\r\n01234;12.50\r\n12345;3\r\n",
            CSV,
            ['{"zip": "01234", "total": 12.50}', '{"zip": "12345", "total": 3}'],
        ),
        ("a,b\n1,2,3\n", JSON_LINES, ["a,b", "1,2,3"]),
    ],
)
def test_values_are_as_they_were_written(text: str, form: str, values: list[str]) -> None:
    """JSON is passed on as it stands; of CSV a column is numbers only where JSON writes each of its cells so."""
    found = read_records(text.encode())

    assert (found.form, [value.decode() for value in found.values]) == (form, values)


@pytest.mark.parametrize("content", [b"", b"\n \n", b"\xff\xfe1", b"Obj\x01\x80\x81"])
def test_what_holds_no_records_is_refused(content: bytes) -> None:
    """An empty file and one that is no text are told apart from records."""
    with pytest.raises(ValueError, match=r"no record|not UTF-8"):
        read_records(content)
