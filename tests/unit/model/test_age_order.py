"""Jobs stay in order of age while they come and go, however many at once."""

from hypothesis import given
from hypothesis import strategies as st

from muster.model.age_order import AgeOrder, JobAge

_AGES = st.builds(
    lambda number: JobAge(float(number % 7), f"u{number}", f"ns/{number}", number),
    st.integers(0, 400),
)


@given(st.lists(st.sets(_AGES, max_size=200), max_size=6))
def test_rows_are_those_of_a_sorted_list_whatever_came_and_left(rounds: list[set[JobAge]]) -> None:
    order, there = AgeOrder(), set[JobAge]()
    for changed in rounds:
        for age in sorted(changed):
            (order.remove if age in there else order.add)(age)
        there ^= changed
        assert order.rows().tolist() == [age.row for age in sorted(there)]
        assert len(order) == len(there)


def test_a_job_that_leaves_and_comes_back_as_it_was_keeps_its_place() -> None:
    order, old, young = AgeOrder(), JobAge(1.0, "a", "ns/a", 5), JobAge(2.0, "b", "ns/b", 3)
    order.add(young)
    order.add(old)
    assert order.rows().tolist() == [5, 3]
    order.remove(old)
    order.add(old)
    order.add(JobAge(3.0, "c", "ns/c", 0))
    order.remove(JobAge(3.0, "c", "ns/c", 0))
    assert order.rows().tolist() == [5, 3]


def test_one_that_comes_and_one_that_leaves_are_compared_with_few_of_many() -> None:
    compared = []

    class Counted(JobAge):
        def __lt__(self, other: tuple[object, ...]) -> bool:
            compared.append(other)
            return tuple(self) < tuple(other)

    order, many = AgeOrder(), [Counted(float(at), f"u{at}", "", at) for at in range(10_000)]
    for age in many:
        order.add(age)
    order.rows()
    compared.clear()
    order.remove(many[17])
    order.add(Counted(4711.5, "new", "", 17))
    assert order.rows()[4710:4713].tolist() == [4711, 17, 4712]
    assert len(compared) < 50


def test_rows_that_were_read_do_not_change() -> None:
    order = AgeOrder()
    order.add(JobAge(2.0, "b", "ns/b", 1))
    read = order.rows()
    order.add(JobAge(1.0, "a", "ns/a", 0))
    assert order.rows().tolist() == [0, 1]
    assert read.tolist() == [1]
