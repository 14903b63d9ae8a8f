"""What people call jobs of which the group's name does not tell it stands beside every answer."""

import msgspec
import pytest
from tests.support.moments import moment_of

from muster.testing import make
from muster.web.called import called, with_called
from muster.web.moment import Moment


def _moment(*groups: tuple[str, str]) -> Moment:
    """Of groups with what each was made for."""
    gangs = [make.gang(one, 1, gpu=1, queue="q", known_as=(owner,)) for one, owner in groups]
    return moment_of(make.cluster(make.queue("q"), *gangs))


@pytest.mark.parametrize(
    ("groups", "names"),
    [
        ([("spark-1f2e", "SparkApplication/pi")], {"default/spark-1f2e": "default/pi"}),
        ([("pi-driver", "SparkApplication/pi")], {}),  # the name begins with it
        ([("spark-1", "SparkApplication/pi"), ("spark-2", "SparkApplication/pi")], {}),
        (
            [("spark-1", "SparkApplication/pi"), ("pi", "Job/other")],
            {"default/pi": "default/other"},
        ),
        ([("spark-1", "SparkApplication/a b/c")], {}),  # an annotation holds anything
        ([("spark-1", "SparkApplication/\x1b[2J")], {}),
    ],
)
def test_a_name_is_given_where_it_helps_and_is_nobody_elses(
    groups: list[tuple[str, str]], names: dict[str, str]
) -> None:
    assert called(_moment(*groups)) == names


def test_an_answer_has_those_names_that_are_in_it_and_no_others() -> None:
    moment = _moment(("spark-1", "Spark/pi"), ("spark-2", "Spark/tau"))
    body = msgspec.json.encode({"text": "It waits for default/spark-2."})
    told = msgspec.json.decode(with_called(body, moment))
    assert told["called"] == {"default/spark-2": "default/tau"}
    for untouched in (b"{}", b"[1]", b"", b'{"key":"default/spark-20"}'):
        assert with_called(untouched, moment) == untouched
    assert with_called(body, None) == body
