"""What every object has."""

from datetime import UTC, datetime

from muster.api.meta import ObjectMeta


def test_objects_are_ordered_by_age_and_those_of_one_second_by_name() -> None:
    early, late = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
    made = [
        ObjectMeta(name="a", namespace="ns", creation_timestamp=late),
        ObjectMeta(name="c", namespace="ns", creation_timestamp=early),
        ObjectMeta(name="b", namespace="ns", creation_timestamp=early),
        ObjectMeta(name="unknown", namespace="ns"),
    ]
    by_age = sorted(made, key=lambda one: one.age_order)
    assert [one.name for one in by_age] == ["unknown", "b", "c", "a"]
