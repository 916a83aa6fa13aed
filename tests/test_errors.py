"""The tree of errors is the one that is drawn, and each says what to do."""

from __future__ import annotations

import inspect
import json
import pickle
import re
from pathlib import Path

import pytest

from ldp_kafka import errors
from ldp_kafka.errors import BadRecord, LdpKafkaError, Reason, TopologyError
from tests.cases import cases

CLASSES = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, Exception) and kind.__module__ == errors.__name__
]


def drawn():
    """name -> (name of the parent, action, name of the second base) as in the module's
    docstring.
    """
    found, path = {}, {}
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(
            r"^ {4}([│ ]*[├└]── )?([A-Z]\w+)(?: +(halt|retry|drop))?(?: +\((\w+)\))?", line
        )
        if match:
            depth = len(match[1] or "") // 4
            path[depth] = match[2]
            found[match[2]] = (path.get(depth - 1), match[3], match[4])
    return found


def test_the_tree_is_drawn():
    """Names, parents, actions and second bases: what the docstring shows is what is."""
    tree = drawn()
    codes = {"Dropped", "Reason"}
    assert set(tree) == {kind.__name__ for kind in CLASSES} == {*errors.__all__} - codes
    for kind in CLASSES:
        parent, action, second = tree[kind.__name__]
        if kind is LdpKafkaError:
            assert (parent, kind.__bases__) == (None, (Exception,))
            continue
        assert kind.action == action
        assert kind.__bases__[0].__name__ == parent
        assert [base.__name__ for base in kind.__bases__[1:]] == ([second] if second else [])


@cases("kind", CLASSES)
def test_every_error_says_what_to_do(kind):
    """And by default it is the safe thing: halt."""
    assert kind.action in ("halt", "retry", "drop")
    assert LdpKafkaError.action == "halt"


def test_a_topology_error_names_file_line_and_key():
    """In the form that editors understand."""
    error = TopologyError("must be positive", file="a.yaml", line=7, key="privacy.epsilon")
    assert str(error) == "a.yaml:7: privacy.epsilon: must be positive"
    assert (error.file, error.line) == ("a.yaml", 7)
    assert (error.key, error.reason) == ("privacy.epsilon", "must be positive")
    assert str(TopologyError("is empty", file="a.yaml")) == "a.yaml: is empty"


def test_a_bad_record_says_why_and_what_to_do():
    """The reason is a code, which goes into the dead letter; its text is for people."""
    bad = BadRecord(Reason.NOT_FINITE)
    assert bad.reason == "not_finite"
    meaning = "the value is NaN, infinite, or beyond 1.8e308"
    assert str(bad) == f"not_finite: {meaning}; leave out what was not measured"
    assert repr(bad) == "BadRecord(<Reason.NOT_FINITE: 'not_finite'>)"
    assert issubclass(BadRecord, ValueError)
    sent = pickle.loads(pickle.dumps(BadRecord(Reason.NOT_FINITE)))
    assert sent.reason is Reason.NOT_FINITE, "over to another process and back"
    with pytest.raises(ValueError, match="not a valid Reason"):
        BadRecord("anything else")


def test_a_reason_is_its_code():
    """What stands in dead letters and metrics for good; the meaning is for people."""
    known = (
        "empty too_large not_json not_arrow not_a_record events not_a_report wrong_fields version"
        " user value not_finite category time ahead fingerprint range partition stream restarted"
        " closed"
    )
    assert [str(reason) for reason in Reason] == known.split()
    assert json.dumps({"reason": Reason.USER}) == '{"reason": "user"}'
    assert {reason.name.lower() for reason in Reason} == {*map(str, Reason)}


def test_every_reason_is_documented_with_its_cure():
    """In the one list of the documentation, word for word, and nothing else is."""
    text = (Path(__file__).parents[1] / "topologies" / "README.md").read_text("utf-8")
    section = text.partition("## Dead letters\n")[2].partition("\n## ")[0]
    items = [" ".join(item.split()) for item in section.split("\n- ")[1:]]
    assert items == [f"`{reason}`: {reason.meaning}. *{reason.cure}.*" for reason in Reason]
    assert all(reason.meaning and reason.cure for reason in Reason)
    assert len({reason.meaning for reason in Reason}) == len(Reason)
