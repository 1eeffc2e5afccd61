"""``/openapi.json``: valid, complete, of the declarations, and readable by a tool that sends."""

from __future__ import annotations

import inspect
import json
import re
import urllib.error
import urllib.request
from typing import Any

import jsonschema
import pytest

import dpframe as dp
from dpframe.doors.gateway import client, http
from dpframe.doors.gateway.policy_questions import call_descriptions, openapi_document, type_schema
from tests.gateway.conftest import ANN, Served

DOCUMENT = openapi_document()


def test_it_is_valid() -> None:
    """Law: by the metaschema of OpenAPI 3.1, and every schema in it by JSON Schema."""
    definitions = pytest.importorskip("schemathesis.specs.openapi.definitions")
    definitions.OPENAPI_31_VALIDATOR.validate(DOCUMENT)
    for schema in DOCUMENT["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_every_route_is_described(served: Served) -> None:
    """Law: the routes of the application, but for the page's files, and no other."""

    class OfNobody:
        class policy:
            rate, identity = 1, None

    routes = {
        (route.path, method)
        for route in http.Door(OfNobody()).app().routes  # type: ignore[arg-type]
        for method in route.methods - {"HEAD"}  # type: ignore[attr-defined]
        if "{question}" not in route.path and not route.path.startswith("/page/")  # type: ignore[attr-defined]
    }
    told = {
        (path, method.upper())
        for path, item in DOCUMENT["paths"].items()
        for method in item
        if method != "parameters"
    }
    questions = {
        (f"/api/datasets/{{data}}/{name}{end}", "POST")
        for name in client.SERVED
        for end in ("", "/explain")
    }
    assert told == (routes - {("/", "GET")}) | questions
    with urllib.request.urlopen(f"{served.url}/openapi.json") as found:
        assert json.load(found) == json.loads(json.dumps(DOCUMENT))
    names = [item[m]["operationId"] for item in DOCUMENT["paths"].values() for m in item
             if m != "parameters"]  # fmt: skip
    assert len({*names}) == len(names)


def test_arguments_are_those_of_the_declarations() -> None:
    """Law: names, defaults and what is required are the functions'; each has a text and a type."""
    for one in call_descriptions():
        function = client.SERVED[one.question][one.explains]
        taken = client.remote_signature(function).parameters
        properties = one.arguments["properties"]
        assert [*properties] == [name for name in taken if name not in ("self", "progress")]
        assert len(one.summary.split()) <= 25
        for name, schema in properties.items():
            assert schema["description"], (one.question, name)
            assert "type" in schema or "anyOf" in schema
            assert not re.search("func:|``", schema["description"])
            assert (name in one.arguments["required"]) == (
                taken[name].default is inspect.Parameter.empty
            )
    hhh = next(one for one in call_descriptions() if one.question == "hhh")
    assert hhh.arguments["properties"]["confidence"]["maximum"] == 0.999999
    assert "offline" in hhh.arguments["properties"]["mechanism"]["enum"]
    assert hhh.arguments["properties"]["remainder"]["type"] == "boolean"
    assert "residual" in hhh.arguments["properties"]["threshold"]["description"]


@pytest.mark.parametrize(
    ("annotation", "right", "wrong"),
    [
        ("str | Sequence[str] | Hierarchy | None", ["a", ["a", "b"]], [1, [], [1], {"a": "b"}]),
        ("float | int | None", [1, 1.5], ["1", True]),
        ("int | None", [1], [1.5, "a"]),
        ("Mapping[str, Measure | str] | Sequence[Measure | str] | str | None",
         ["count", ["count"], {"n": "count"}], [3, [3], {"n": 3}, {}]),
        ("Sequence[float] | None", [[1, 2.5]], ["a", [], ["a"]]),
        ("float | Mapping[str, float] | None", [3, {"n": 3}], ["a", {"n": "a"}]),
        (client.PERIOD, ["2026", ["day", "2026"]], [3, ["day"], {}]),
    ],
)  # fmt: skip
def test_types_as_schemas(annotation: str, right: list[Any], wrong: list[Any]) -> None:
    validator = jsonschema.Draft202012Validator(type_schema(annotation))
    assert all(map(validator.is_valid, right))
    assert not any(map(validator.is_valid, wrong))


def sent(served: Served, path: str, given: dict[str, Any] | None = None) -> tuple[int, Any]:
    body = None if given is None else json.dumps(given).encode()
    head = {"Authorization": f"Bearer {ANN}", "Content-Type": "application/json"}
    try:
        with urllib.request.urlopen(
            urllib.request.Request(served.url + path, body, head)
        ) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_answers_are_what_it_says(served: Served) -> None:
    """Law: what a gateway sends fits the schemas, refusals too."""
    fits = _fitting()
    at = "/api/datasets/sales"
    hhh: dict[str, Any] = {"hierarchy": "town", "epsilon": 0.6}
    status, answer = sent(served, f"{at}/hhh", hhh)
    assert status == 200
    fits("Answer", answer)
    fits("Answer", sent(served, f"{at}/releases/{answer['release']}")[1])
    fits("Explanation", sent(served, f"{at}/hhh/explain", hhh)[1])
    fits("DataSet", sent(served, at)[1])
    fits("Budget", sent(served, f"{at}/budget")[1])
    fits("Analyst", sent(served, "/api/analyst")[1])
    fits("Health", sent(served, "/healthz")[1])
    for row in sent(served, f"{at}/releases")[1]:
        fits("Release", row)
    other = sent(served, f"{at}/hhh", {**hhh, "epsilon": 0.65})[1]["release"]
    fits("Answer", sent(served, f"{at}/change", {"before": answer["release"], "after": other})[1])
    for path, given in (("/nothing", None), (f"{at}/hhh", {"hierarchy": "x"}), (f"{at}/x", {})):
        status, problem = sent(served, path, given)
        assert status == problem["status"] >= 400
        fits("Problem", problem)


def _fitting() -> Any:
    def fits(name: str, value: Any) -> None:
        schema = {"$ref": f"#/components/schemas/{name}", "components": DOCUMENT["components"]}
        jsonschema.Draft202012Validator(schema).validate(value)

    return fits


@pytest.mark.engines
def test_a_tool_reads_it_and_sends_what_fits(served: Served) -> None:
    """Law: schemathesis reads every operation; what it makes of the schemas is answered or refused
    as the document says."""
    schemathesis = pytest.importorskip("schemathesis")
    from hypothesis import HealthCheck, given, settings
    from schemathesis.specs.openapi.checks import positive_data_acceptance

    schema = schemathesis.openapi.from_url(f"{served.url}/openapi.json")
    operations = [found.ok() for found in schema.get_all_operations()]
    paths = [path for path in DOCUMENT["paths"] if path != "/openapi.json"]  # which it has read
    assert {operation.path for operation in operations} == {*paths}
    for operation in operations:
        if operation.path.endswith(("/explain", "/budget", "/datasets", "/healthz")):

            @settings(max_examples=5, deadline=None, suppress_health_check=[*HealthCheck])
            @given(case=operation.as_strategy())
            def answered(case: Any) -> None:
                response = case.call(headers={"Authorization": f"Bearer {ANN}"})
                assert response.status_code < 500
                by_text = case.operation.path == "/api/sql/explain"  # not every text is a query
                refusable = [positive_data_acceptance] if by_text else []
                case.validate_response(response, excluded_checks=refusable)

            answered()
    assert dp.connect(served.url, token=ANN).datasets
