"""The published schema: valid, closed, and in step with the code."""

import json
from importlib.resources import files
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from ldp_kafka.errors import TopologyError
from ldp_kafka.methods import METHODS
from ldp_kafka.methods.protocols import PROTOCOLS
from ldp_kafka.methods.runnable import names
from ldp_kafka.statistics import STATISTICS
from ldp_kafka.topology import loads, schema
from ldp_kafka.topology.sections import pure
from tests.cases import cases

SHIPPED = sorted((Path(__file__).parents[2] / "topologies").glob("*.yaml"))


def published():
    """The file as it is shipped."""
    return json.loads((files("ldp_kafka.topology") / "schema.json").read_text("utf-8"))


def leaves(whole, place, path=()):
    """(path, definition) of every property that is no section."""
    if "$ref" in place:
        place = {**whole["$defs"][place["$ref"].rpartition("/")[2]], **place}
    if "properties" in place.get("items", {}):
        yield from leaves(whole, place["items"], path)
    if "properties" not in place:
        yield path, place
        return
    assert place["additionalProperties"] is False, path
    for name, inner in place["properties"].items():
        yield from leaves(whole, inner, (*path, name))


@pytest.mark.parametrize("kind", ["", "edge"])
def test_every_default_and_example_is_allowed(kind):
    """In what is a schema, is nobody else's afterwards, and describes every key."""
    whole = schema(kind) if kind else schema()
    Draft202012Validator.check_schema(whole)
    assert whole["$id"] == f"{kind}.schema.json".strip(".")
    assert schema() is not schema()
    described = whole["properties"].values() if kind else ()
    assert all(each["description"] for each in described)
    for path, place in leaves(whole, whole):
        assert place["description"], path
        check = Draft202012Validator({**place, "$defs": whole.get("$defs", {})})
        given = [*place.get("examples", []), *([place["default"]] if "default" in place else [])]
        for value in given:
            assert "${" in str(value) or check.is_valid(value), (path, value)


def test_the_shipped_file_is_the_schema():
    """Editors read the file; what it lacks of the registries `ldp-kafka schema` writes in."""
    assert published() == schema()


def test_names_are_those_of_the_registries():
    statistics = published()["properties"]["output"]["properties"]["statistics"]
    assert statistics["items"]["enum"] == sorted(STATISTICS)
    properties = published()["$defs"]["privacy"]["properties"]
    assert properties["method"]["enum"] == names()
    assert set(names()) == {*PROTOCOLS, *METHODS}
    assert properties["mechanism"]["enum"] == sorted(
        {*pure(), *(method.default_mechanism for method in METHODS.values())}
    )
    own = {name for method in METHODS.values() for name in method.parameters}
    assert (
        set(properties)
        == {
            "method",
            "mechanism",
            "trust",
            "epsilon",
            "window",
            "domain",
            "categories",
            "calibration",
            "level",
        }
        | own
    )


@cases("path", SHIPPED)
def test_editors_accept_the_shipped_topologies(path):
    """Without our interpolation, as a language server sees them."""
    data = YAML(typ="safe", pure=True).load(path.read_text("utf-8"))
    found = [
        error.message
        for error in Draft202012Validator(schema()).iter_errors(data)
        if "${" not in str(error.instance)
    ]
    assert not found


def test_what_is_shipped():
    assert {path.stem for path in SHIPPED} == {
        "air-quality",
        "app-usage",
        "body-weight",
        "clinic-visits",
        "foreign-json",
        "heart-rate",
        "phone-networks",
        "shop-sales",
        "smart-meters",
        "smart-meters-mean",
    }


def test_the_readme_names_every_key():
    text = (Path(__file__).parents[2] / "topologies" / "README.md").read_text("utf-8")
    missing = [
        path
        for path, _ in leaves(schema(), schema())
        if path[:2] not in {("kafka", "edge"), ("kafka", "collector")} and path[-1] not in text
    ]
    assert not missing
    assert all(path.name in text for path in SHIPPED)


def test_the_schema_and_the_loader_refuse_alike():
    """What the schema refuses the loader refuses too, with one exception that only the loader
    makes: 10.0 is no whole number.
    """
    with pytest.raises(TopologyError):
        loads(
            "topology: a\ninput: {slot: 1h}\nprivacy: {method: sw_direct, epsilon: 1, window: 10.0,"
            " domain: [0, 1]}\noutput: {statistics: [mean]}\n"
        )
