"""What is hidden of a record's fields, whoever looks."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from framework.config.spec import EvolvePolicy, TablePolicy, TablesSpec
from framework.record.masks import Hidden, Masks, mask_fields
from framework.record.strict_json import NumberText

NAMES = st.sampled_from(["a", "b", "Mail", "password", "list", "deep"])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.text("xyz", min_size=4, max_size=6)
    | st.integers(1000, 9999).map(lambda n: NumberText(n)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=200)
@given(st.dictionaries(NAMES, VALUES, max_size=4))
def test_what_is_hidden_is_nowhere_below_its_path(fields: dict[str, object]) -> None:
    """Below a masked field, or one with the name of a secret, no text and no number stays, and the shape is the same; beside
    it nothing changes."""
    shown = mask_fields(fields, Masks.of(["mail"]), Hidden())

    def check(before: object, after: object, hide: bool) -> None:
        if isinstance(before, dict):
            assert isinstance(after, dict)
            assert list(after) == list(before)
            for name in before:
                check(before[name], after[name], hide or name in ("password",) or (name == "Mail" and before is fields))
        elif isinstance(before, list):
            assert isinstance(after, list)
            assert len(after) == len(before)
            for one, other in zip(before, after, strict=True):
                check(one, other, hide)
        elif hide:
            assert after in (None, False, "masked", "0")
        else:
            assert after == before

    check(fields, shown, False)


def test_excluded_fields_of_any_table_are_hidden() -> None:
    """What a file keeps out of a table by `evolve.exclude` is not shown either, with all below it."""
    policy = TablePolicy(evolve=EvolvePolicy(exclude=("Customer.*", "ssn")))
    tables = TablesSpec(overrides=(("shop.*", policy),))
    hidden = Hidden()
    record = {"customer": {"name": "x", "id": NumberText(7)}, "SSN": "1-2", "kept": "y"}

    shown = mask_fields(record, Masks.of((), tables), hidden)

    assert shown == {"customer": {"name": "masked", "id": "0"}, "SSN": "masked", "kept": "y"}
    assert hidden.paths == {"customer.name", "customer.id", "SSN"}
    assert Masks.of((), tables).hides_part("customer.name.first")
