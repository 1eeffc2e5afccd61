"""Questions as a policy allows them: what an analyst gives, and what the policy sets."""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pyarrow as pa

from dpframe._duck import VIEW
from dpframe._version import __version__
from dpframe.asking.answer import answer_checked
from dpframe.asking.call_arguments import (
    COMMON,
    DELTA,
    EPSILON,
    constraint_schema,
    flag,
)
from dpframe.asking.card import Line
from dpframe.asking.measure_texts import measures_from
from dpframe.asking.question import Question, explain_plan, plan_within_error
from dpframe.asking.release import DataScope, Release, receipt_in_metadata
from dpframe.common.calls import argument_hint, shown_value
from dpframe.common.progress import time_limit
from dpframe.common.texts import identifier
from dpframe.doors.gateway import JSON
from dpframe.doors.gateway.client import SERVED, remote_signature
from dpframe.doors.gateway.policy import SET_BY_POLICY, DataSet, columns_of
from dpframe.doors.sql import query as sql_query
from dpframe.doors.sql.query_tree import read_query
from dpframe.errors import BudgetError, ColumnError, ParameterError, ParameterTypeError
from dpframe.hierarchy import Hierarchy
from dpframe.ledger.book import Ledger
from dpframe.pages.page_parts import asset_text
from dpframe.questions.hhh.heavy_hitters import largest_values
from dpframe.questions.question_list import QUESTIONS
from dpframe.sources.source_relations import open_source

NAMED: dict[str, Question[Any, Any]] = {question.name: question for question in QUESTIONS}

SQL_ARGUMENTS = ("query", "epsilon", "delta", "intervals", "threshold", "confidence", "period")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class GateQuestion:
    """A question that the policy allows, read once.

    Parameters
    ----------
    name
        The name of its release: a digest of the canonical question, the state of the rows, and what
        of the policy matters.
    data, question, given, arguments
        The data set, the name of the question, its arguments as the analyst gave them, and with
        what the policy sets.
    finer
        Arguments of questions whose answers hold this one's, as levels above their last ones.
    release
        Makes the release in a ledger, from open rows, under a name.
    finish
        Makes rows for the analyst of the release, free.
    explain
        Explains it, with a ledger.
    """

    name: str
    data: DataSet
    question: str
    given: Mapping[str, Any]
    arguments: Mapping[str, Any]
    release: Callable[[Any, Ledger, str], Any]
    finish: Callable[[Any], pa.Table]
    explain: Callable[[Ledger], Any]
    finer: Sequence[Mapping[str, Any]] = ()


def digest_of(tables: Mapping[str, pa.Table]) -> str:
    """A digest of public tables, which answers to queries follow from."""
    digest = hashlib.sha256()
    for name, table in sorted(tables.items()):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table.combine_chunks())
        digest.update(name.encode() + b"\0" + sink.getvalue().to_pybytes())
    return digest.hexdigest()


LEAST = 0.01
"""The least epsilon of a measure: planning takes long for less. A smaller default allows that."""

ENDING = 10.0
"""Seconds that the end of a query may take, on rows that are released."""

MEASURES = 32
"""The most measures of a question."""


SEARCH = 10.0
"""Seconds of a processor in which an epsilon for an error must be found."""


def bounded_effort(question: Question[Any, Any], data: DataSet) -> Question[Any, Any]:
    """The question, whose plans are refused where they would take long to make."""

    began = time.thread_time()

    def planned(given: Any) -> Any:
        if time.thread_time() - began > SEARCH:
            raise ParameterError("an epsilon for this error takes long to find. Name an epsilon.")
        measures = given.get("measures")
        count = len(measures) if isinstance(measures, Mapping | list) else 1
        if count > MEASURES:
            raise ParameterError(f"{count} measures are too many. Ask for at most {MEASURES}.")
        least = min(LEAST, data.default) * max(1, count)
        if given["epsilon"] is not None and given["epsilon"] > data.largest:
            raise BudgetError(
                f"epsilon would be above {data.largest:g}, the largest of a question here."
            )
        if given["epsilon"] is not None and given["epsilon"] < least:
            raise BudgetError(
                f"epsilon ({given['epsilon']!r}) must be at least {least:g} here. Take more, or "
                "fewer measures."
            )
        return question.planned(given)

    return replace(question, planned=planned)


def release_of(question: str, data: DataSet, request: Mapping[str, Any], about: DataScope) -> str:
    """The name of a release: a digest of everything that its rows follow from."""
    facts = {
        "question": question,
        "request": request,
        "about": about.request,
        "data": data.name,
        "state": data.state,
        "source": data.source.describe(""),
        "user": data.user,
    }
    text = json.dumps(facts, sort_keys=True, default=str)
    return f"{data.name}-{hashlib.sha256(text.encode()).hexdigest()[:24]}"


def _planning_arguments(
    data: DataSet, known: Sequence[str], given: Mapping[str, Any], explains: bool
) -> tuple[dict[str, Any], Any]:
    """Arguments with what the policy sets, and the error that an explanation looks for."""
    known = [one for one in known if one not in SET_BY_POLICY]
    known += ["error"] * explains
    for name in given:
        if name not in known:
            set_by = " The policy sets it." if name in SET_BY_POLICY else argument_hint(name, known)
            raise ParameterError(f"an analyst gives no argument {name!r}.{set_by}")
    out = {key: value for key, value in given.items() if value is not None}
    error = out.pop("error", None)
    if error is None:
        out.setdefault("epsilon", data.default)
    epsilon = out.get("epsilon")
    if epsilon is not None:
        if isinstance(epsilon, bool) or not isinstance(epsilon, int | float):
            raise ParameterTypeError(f"epsilon must be a number; got {shown_value(epsilon)}.")
        if not 0 < epsilon <= data.largest:
            raise ParameterError(
                f"epsilon ({epsilon!r}) must be above 0 and at most {data.largest:g}, the largest "
                f"of a question about {data.name!r}."
            )
        out.setdefault("delta", data.share_of_delta(epsilon))
    else:
        out.setdefault("delta", data.share_of_delta(data.default))
    if "period" in out:
        out["period"] = _period(data, out["period"])
    return out, error


def _period(data: DataSet, given: Any) -> tuple[Any, ...]:
    if data.period is None:
        raise ParameterError(f"{data.name!r} has no column of periods. Leave period out.")
    parts = [data.period, given] if isinstance(given, str) else given
    if not isinstance(parts, list) or not parts or parts[0] != data.period:
        raise ParameterError(
            f"period ({shown_value(given)}) must be a text such as '2026-W47'; it is read from "
            f"{data.period!r}."
        )
    if len(parts) == 2 and data.zone is not None:
        parts = [*parts, data.zone]
    return tuple(parts)


def empty_rows(data: DataSet) -> pa.Table:
    """The columns of a data set that questions may name, with their types and no row."""
    with data.rows() as opened, open_source(opened, [*data.columns]) as relation:
        listed = ", ".join(map(identifier, data.columns))
        return relation.query(f"SELECT {listed} FROM {VIEW} LIMIT 0", False)


def read_arguments(
    question: Question[Any, Any],
    data: DataSet,
    empty: object,
    given: Mapping[str, Any],
    explains: bool,
) -> GateQuestion:
    """A question of the library, as a data set allows it. ``empty``, a table or a relation, has the
    columns of the data set, and no row."""
    derives = flag("derive", given.get("derive", True)) and question.name == "rollup"
    given = {key: value for key, value in given.items() if key != "derive"}
    planning, error = library_arguments(question, data, given, explains)
    asked, found = plan_within_error(bounded_effort(question, data), planning, error)
    _check_allowed(data, asked, planning)
    about = DataScope.of({"data": data.state, "period": planning.get("period")})
    question.checked(question.declared(asked), empty)
    explained_scope = about.read_in(empty)

    def release(rows: Any, ledger: Ledger, name: str) -> Any:
        return answer_checked(
            question,
            asked,
            rows,
            ledger=ledger,
            name=name,
            about=about,
            progress=False,
            place=data.name,
        ).release

    def explain(ledger: Ledger) -> Any:
        return explain_plan(question, question.declared(asked), found, explained_scope, ledger)

    return GateQuestion(
        name=release_of(question.name, data, asked.request, about),
        data=data,
        question=question.name,
        given=given,
        arguments=planning,
        release=release,
        finish=lambda released: _as_asked(question, planning, released).to_arrow(),
        explain=explain,
        finer=_finer(data, asked.hierarchy, given) if derives and error is None else (),
    )


def library_arguments(
    question: Question[Any, Any], data: DataSet, given: Mapping[str, Any], explains: bool = False
) -> tuple[dict[str, Any], Any]:
    """Arguments as the library takes them, with what the policy sets; and the error that an
    explanation looks for."""
    planning, error = _planning_arguments(data, [*question.plan_arguments], given, explains)
    if data.user is not None:
        planning["user"] = data.user
    _use_lists(data, planning)
    if "measures" in planning:
        planning["measures"] = measures_from(planning["measures"], data.bounds)
    if planning.get("weight") is not None:
        _bound_weight(data, planning)
    return planning, error


def _as_asked(
    question: Question[Any, Any], planning: Mapping[str, Any], released: Release
) -> Release:
    """What the function of a question returns of a release."""
    if question.name == "heavy_hitters":
        return largest_values(released, planning.get("k"))
    return released


def _finer(data: DataSet, hierarchy: Hierarchy, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Arguments of the same rollup with more levels. Of single records alone: what a user adds to a
    node depends on the last level."""
    columns, out = hierarchy.source_columns, []
    if data.user is not None or hierarchy.kind != "columns" or given.get("keys") is not None:
        return []
    for level in data.levels:
        longer = level.source_columns
        if level.kind == "columns" and longer[: len(columns)] == columns:
            ends = range(len(columns) + 1, len(longer) + 1)
            out += [{**given, "by": [*longer[:end]]} for end in ends]
    return out


def coarser_rows(asked: GateQuestion, finer: pa.Table, name: str) -> pa.Table:
    """The rows of a finer answer that a question asks for, with a line in the card that says so.

    Its columns stay, as its receipt names them: those of lower levels are empty.
    """
    frame, receipt = finer.to_pandas(), receipt_in_metadata(finer.schema.metadata)
    assert receipt is not None
    height = len(NAMED[asked.question].plan(asked.arguments).hierarchy.source_columns)
    frame = frame[frame["level"] <= height].reset_index(drop=True)
    line = Line(
        "follows from",
        f"release {name}",
        "these are its upper levels, with its noise; nothing was charged. derive=False draws anew",
    )
    return Release(frame, receipt.with_release_facts({}, [line])).to_arrow()


def _use_lists(data: DataSet, planning: dict[str, Any]) -> None:
    """Put a public list in the place of its name; no other text names keys, such as a file."""
    keys = planning.get("keys")
    if isinstance(keys, Mapping):
        planning["keys"] = {column: _listed_values(data, own) for column, own in keys.items()}
    elif keys is not None:
        planning["keys"] = _listed_values(data, keys)


def _listed_values(data: DataSet, keys: object) -> Any:
    """Keys, or the public list of a name."""
    if not isinstance(keys, str) or keys == "domain":
        return keys
    if keys not in data.keys:
        hint = argument_hint(keys, [*data.keys]) if data.keys else " List them in the call."
        raise ParameterError(f"keys ({keys!r}) is no list of {data.name!r}.{hint}")
    return data.keys[keys]


def _bound_weight(data: DataSet, planning: dict[str, Any]) -> None:
    weight = planning["weight"]
    pair = data.bounds.get(weight) if isinstance(weight, str) else None
    if pair is None:
        raise ColumnError(f"weight ({shown_value(weight)}) has no bounds in {data.name!r}.")
    if planning.setdefault("max_weight", pair[1]) != pair[1]:
        raise ParameterError(f"max_weight is {pair[1]!r} for {weight!r}. Leave it out.")


def _check_allowed(data: DataSet, asked: Any, planning: Mapping[str, Any]) -> None:
    """Refuse hierarchies and measures of columns that the policy does not name for them."""
    hierarchy = asked.hierarchy
    if not data.allows(hierarchy):
        listed = ", ".join(level.spec for level in data.levels)
        raise ColumnError(
            f"{hierarchy.spec!r} may not be asked of {data.name!r}. It has levels {listed}."
        )
    for measure in (planning.get("measures") or {}).values():
        if measure.column not in (None, *data.bounded_columns):
            listed = ", ".join(sorted(data.bounded_columns)) or "count alone"
            raise ColumnError(
                f"{measure.spec!r} may not be asked of {data.name!r}. It measures {listed}."
            )


def read_sql(
    data: DataSet, empty: object, given: Mapping[str, Any], explains: bool
) -> GateQuestion:
    """A query in SQL, as a data set allows it. ``empty`` is as for :func:`read_arguments`."""
    planning, error = _planning_arguments(data, SQL_ARGUMENTS, given, explains)
    period = planning.pop("period", None)
    text = planning.pop("query", None)
    if not isinstance(text, str):
        raise ParameterTypeError(f"query must be text; got {shown_value(text)}.")
    query = read_query(text)
    for option in query.options:
        if option == "privacy_unit_column":
            raise ParameterError("the policy sets privacy_unit_column. Leave it out.")
        if option in planning and option not in given:
            del planning[option]
    tables = sql_query.Tables(private={}, public=data.public)
    columns = (
        {data.name.casefold(): columns_of(data)},
        sql_query.table_columns(data.public),
    )
    asked_with = {
        "user": data.user,
        "bounds": data.bounds,
        **{name: planning.get(name) for name in ("epsilon", "delta", "intervals", "threshold")},
    }
    call = sql_query.read_call(query, *columns, asked_with, data.roles)
    epsilon = call.arguments["epsilon"]
    if epsilon is not None and not 0 < epsilon <= data.largest:
        raise ParameterError(f"epsilon ({epsilon!r}) must be at most {data.largest:g}.")
    confidence = {} if "confidence" not in planning else {"confidence": planning["confidence"]}
    arguments = {**call.arguments, "threshold": planning.get("threshold"), **confidence}
    question = NAMED[call.question.question]
    asked, found = plan_within_error(bounded_effort(question, data), arguments, error)
    tables.check_keys(call.question, tables.public_rows())
    about = DataScope.of({"data": data.state, "period": call.period(period, columns)})
    explained_scope = about.read_in(empty)
    request = {**asked.request, "rows": call.question.rows, "public": digest_of(data.public)}

    def release(rows: Any, ledger: Ledger, name: str) -> Any:
        here = replace(tables, private={call.question.table: rows})
        return sql_query.release_call(
            call, here, arguments, ledger, name, about, progress=False, place=data.name
        )

    def finish(released: Any) -> pa.Table:
        with time_limit(ENDING):
            return sql_query.final_table(call, tables, released, None)

    def explain(ledger: Ledger) -> Any:
        plan = question.declared(asked)
        shown = explain_plan(question, plan, found, explained_scope, ledger)
        return replace(shown, advice=(call.line, *shown.advice))

    return GateQuestion(
        name=release_of("sql", data, request, about),
        data=data,
        question="sql",
        given=given,
        arguments=arguments,
        release=release,
        finish=finish,
        explain=explain,
    )


# -- what questions take, for whoever reads no Python ----------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CallDescription:
    """How a question, or its explanation, is called.

    Parameters
    ----------
    question, explains
        The question, and whether this is its explanation.
    summary, description
        Its first line, and what its docstring says of it and of its result.
    arguments
        A schema of JSON: names, types and ranges of arguments.
    """

    question: str
    explains: bool
    summary: str
    description: str
    arguments: Mapping[str, Any]


@cache
def call_descriptions() -> tuple[CallDescription, ...]:
    """The questions that gateways answer, and their explanations, from their declarations."""
    return tuple(
        _describe(question, functions[explains], explains)
        for question, functions in SERVED.items()
        for explains in (False, True)
    )


def _describe(question: str, function: Callable[..., Any], explains: bool) -> CallDescription:
    parts = sections(SERVED[question][0].__doc__ or "")
    summary = plain_text(sections(function.__doc__ or "")[""].partition("\n\n")[0])
    told = [summary, "Spends nothing, and reads no row."]
    if not explains:
        told = [*parts[""].split("\n\n"), f"Columns: {parts['Returns'].partition(chr(10))[2]}"]
    return CallDescription(
        question=question,
        explains=explains,
        summary=summary,
        description="\n\n".join(map(plain_text, told)),
        arguments=_arguments_schema(question, function),
    )


def _arguments_schema(question: str, function: Callable[..., Any]) -> dict[str, Any]:
    constraints = {**COMMON, **((NAMED[question].constraints or {}) if question in NAMED else {})}
    properties, required = {}, []
    for name, parameter in remote_signature(function).parameters.items():
        if name in ("self", "progress"):
            continue
        schema = constraint_schema(constraints.get(name)) or type_schema(str(parameter.annotation))
        if name in BUDGET_RANGES:
            schema = {"type": "number", **BUDGET_RANGES[name]}
        said = ARGUMENT_WORDS.get(name) or argument_text(SERVED[question][0], name)
        schema = {**schema, "description": said}
        if parameter.default is parameter.empty:
            required.append(name)
        elif parameter.default is not None:
            schema["default"] = parameter.default
        properties[name] = schema
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


BUDGET_RANGES = {
    "epsilon": {"minimum": EPSILON[0], "maximum": EPSILON[1]},
    "delta": {"minimum": DELTA[0], "maximum": DELTA[1]},
}

ARGUMENT_WORDS = {
    **dict.fromkeys(
        ("hierarchy", "by"),
        "What rows are grouped by: a column, a list of columns from coarse to fine, or a text such "
        "as 'date:day' or 'ip:source'. The data set's `levels` are what may be asked.",
    ),
    "measures": "What to measure: 'count', 'sum(amount)', 'mean(amount)', 'median(amount)', "
    "'quantile(amount, 0.9)' or 'distinct(product)', one or several; an object gives the columns "
    "of the answer their names. The data set has the bounds of values.",
    "keys": "Known keys to show, none of which is searched for: the name of a list of the data "
    "set, or a list of values, or of lists of values where there are several columns.",
    "epsilon": "The price: more gives less noise. By default the data set's default; at most its "
    "largest.",
    "delta": "By default the part of the data set's total that goes with epsilon.",
    "period": "Only the records of a period of the data set's column of times: '2026', '2026-Q4', "
    "'2026-11', '2026-W47', '2026-11-22' or a range such as '2026-W40..2026-W47'.",
    "error": "In the place of epsilon: find the smallest one whose intervals are at most so wide "
    "to each side; a number, or numbers by the name of a measure.",
    "derive": "Whether a finer rollup that was answered before may answer this one for nothing.",
}
"""What a gateway says of arguments otherwise than the docstrings."""

TITLE = re.compile(r"\n\n(\w+)\n-{3,}\n")
ROLE = re.compile(r":\w+:`~?\.?(?:dpframe\.)?([^`]+)`")
USER = re.compile(r"\b([Ww])ith `user`[,:]?")
SAME_AS = re.compile(r"As for :func:`(\w+)`[.,;:]?\s*")


def sections(doc: str) -> dict[str, str]:
    """The sections of a docstring by their titles; what stands before them has no title."""
    first, *rest = TITLE.split(inspect.cleandoc(doc))
    return {"": first, **dict(zip(rest[::2], rest[1::2], strict=True))}


def plain_text(text: str) -> str:
    """A paragraph of a docstring without the marks of Sphinx, and without what is said to Python
    alone."""
    told = ROLE.sub(r"\1", " ".join(text.split())).replace("``", "`")
    return re.sub(r" The receipt is in .*", "", USER.sub(_users, told))


def _users(found: re.Match[str]) -> str:
    return "Where users are protected," if found[1] == "W" else "where users are protected"


def argument_text(function: Callable[..., Any], name: str) -> str:
    """What a function's docstring says of an argument. Where it refers to another function, that
    function's text comes first."""
    entries = sections(function.__doc__ or "").get("Parameters", "")
    for head, text in re.findall(r"^(\S.*)\n((?:(?: .*)?\n?)*)", entries, re.M):
        if name in head.split(", "):
            said = " ".join(text.split())
            same = SAME_AS.match(said)
            if same is not None and same[1] in SERVED:
                said = f"{argument_text(SERVED[same[1]][0], name)} {said[same.end() :]}"
            return plain_text(said)
    return ""


PLAIN = {"str": "string", "float": "number", "int": "integer", "bool": "boolean"}


def type_schema(annotation: str) -> dict[str, Any]:
    """What an annotation of a declaration accepts as JSON: hierarchies, measures and days are
    texts there."""
    if annotation == "object":  # keys: a name of the policy, or a list
        return {"anyOf": [{"type": "string"}, {"type": "array", "minItems": 1}]}
    found: list[dict[str, Any]] = []
    for part in re.split(r" \| (?![^\[]*\])", annotation):
        outer, _, inner = part.partition("[")
        inner = inner.removesuffix("]")
        if outer in PLAIN:
            found.append({"type": PLAIN[outer]})
        elif outer == "Sequence":
            found.append({"type": "array", "items": type_schema(inner), "minItems": 1})
        elif outer == "Mapping":
            values = type_schema(inner.partition(", ")[2])
            found.append({"type": "object", "additionalProperties": values, "minProperties": 1})
        elif outer == "tuple":
            found.append({"type": "array", "minItems": 2, "maxItems": 3})
    if {"type": "number"} in found:  # of which whole numbers are some
        found = [one for one in found if one != {"type": "integer"}]
    return found[0] if len(found) == 1 else {"anyOf": found}


@cache
def openapi_document() -> dict[str, Any]:
    """What may be sent to every gateway, and what comes back: OpenAPI 3.1, with the questions as
    they are declared."""
    document: dict[str, Any] = json.loads(asset_text("openapi.json"))
    document["info"]["version"] = __version__
    for one in call_descriptions():
        name = f"{'Explain' if one.explains else 'Ask'}_{one.question}"
        document["components"]["schemas"][name] = one.arguments
        explained = {"$ref": "#/components/schemas/Explanation"}
        answer: dict[str, Any] = {"$ref": "#/components/responses/Answer"}
        if one.explains:
            answer = {"description": "The plan.", "content": {JSON: {"schema": explained}}}
        operation = {
            "tags": ["explanations" if one.explains else "questions"],
            "operationId": name.lower(),
            "summary": one.summary,
            "description": one.description,
            "requestBody": {
                "required": True,
                "content": {JSON: {"schema": {"$ref": f"#/components/schemas/{name}"}}},
            },
            "responses": {
                "200": answer,
                "default": {"$ref": "#/components/responses/Problem"},
            },
        }
        path = f"{one.question}{'/explain' * one.explains}"
        document["paths"][f"/api/datasets/{{data}}/{path}"] = {
            "parameters": [{"$ref": "#/components/parameters/data"}],
            "post": operation,
        }
        if one.question == "sql":  # the query names its data set
            known = {**operation, "operationId": f"{name.lower()}_by_name"}
            document["paths"][f"/api/{path}"] = {"post": known}
    return document
