"""``dp.verify``: receipts, files and ledgers, handed to the verifier."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpframe.common.calls import known_arguments
from dpframe.common.files import local_file, quoted_path
from dpframe.errors import DpframeError, ParameterError, ParameterTypeError, SourceError
from dpframe.verifier import bound_at, verify_proof, verify_receipt
from dpframe.verifier.ledger import (
    Block,
    LedgerRelease,
    ReservedLaw,
    decimal_value,
    verify_releases,
)
from dpframe.verifier.verdict import Verdict

if TYPE_CHECKING:
    from dpframe.ledger import Ledger
    from dpframe.ledger.history import WrittenRelease

RECEIPT, DIGEST = "dp", "dp_digest"
"""Keys of the receipt, and of the digest of rows, in the attrs of a frame."""

LEDGER, PARQUET = b"SQLite format 3\0", b"PAR1"
"""First bytes of ledgers and of Parquet files; other files must be JSON."""

WHAT_TO_PASS = (
    "Pass a frame that dpframe returned, a receipt, a ledger, a proof, or a result as JSON or "
    "Parquet."
)


@known_arguments
def verify(result: object, *, proof: str | Path | None = None) -> Verdict:
    """Prove again what a release promises, with a program that shares no code with the drawing.

    Free: reads public parameters only. The verifier takes the noise tables and the definition of
    the mechanism, and bounds delta at the promised epsilon in whole numbers.

    Parameters
    ----------
    result
        A frame that dpframe returned, its receipt, a :class:`Ledger`, or the name of a file: a
        result or a receipt as JSON, a result as Parquet, a proof, a ledger.
    proof
        A file with the proof, if the receipt does not hold it: the text of
        ``dp.explain(...).proof()``. By default the proof is made again from the arguments in the
        receipt, and its digest is compared.

    Returns
    -------
    Verdict
        Prints as text, which also says what no receipt proves. It is true only if everything is
        proved. ``outcome`` is "proved", "failed" or "not verified", ``bound`` the bound on delta as
        a fraction, ``reason`` the claim that fails or what is not known, ``parts`` the verdicts of
        a ledger's releases.

    Raises
    ------
    ParameterError, ParameterTypeError
        ``result`` carries no receipt, or is something else.
    SourceError
        A file cannot be read.

    Privacy
    -------
    A proof holds no number from data. It proves a statement about the tables in the proof, and not
    that the code which drew used these tables.

    References
    ----------
    docs/verifying.md: what a proof is, step by step, and how it is checked.

    Examples
    --------
    >>> import pandas as pd, dpframe as dp
    >>> trips = pd.DataFrame({"origin": ["JFK"] * 400 + ["LGA"] * 100})
    >>> result = trips.dp.hhh(["origin"], epsilon=1.0, delta=1e-6)
    >>> print(dp.verify(result).sentence)
    proved: delta <= 9.295e-07 at epsilon 1
    """
    try:
        return _verdict_on_result(result, proof)
    except DpframeError:
        raise
    except (ArithmeticError, LookupError, TypeError, ValueError, RecursionError, MemoryError) as e:
        why = type(e).__name__
    raise ParameterError(f"result cannot be checked ({why}). Pass what dpframe wrote, unchanged.")


def _verdict_on_result(result: object, proof: str | Path | None) -> Verdict:
    text = None if proof is None else _file_text(local_file(proof, "proof"))
    if isinstance(result, str | Path):
        return _verdict_on_file(local_file(result, "result"), text)
    if hasattr(result, "releases") and hasattr(result, "accountant"):
        return _verdict_on_ledger(result)  # type: ignore[arg-type]
    facts = _receipt_in(result)
    if facts is None:
        raise ParameterTypeError(
            f"result must hold a receipt; got {type(result).__name__}. {WHAT_TO_PASS}"
        )
    return _verdict_on_rows(_verdict_on_receipt(facts, text), result)


def _verdict_on_rows(verdict: Verdict, result: object) -> Verdict:
    """Return the verdict on a frame from the verdict on its receipt: nothing is proved about rows
    that were not released."""
    import pandas as pd

    from dpframe.common.digest import frame_state

    if not isinstance(getattr(result, "attrs", None), Mapping) or not verdict:
        return verdict  # about a receipt alone
    rows = frame_state(result) if isinstance(result, pd.DataFrame) else None
    if rows is None:
        return replace(verdict, outcome="not verified", reason=NO_DIGEST, bound=None)
    if rows.changed:
        return replace(verdict, outcome="failed", reason=rows.sentence, bound=None)
    said = "; ".join(filter(None, (verdict.reason, rows.sentence)))
    return replace(verdict, reason=said)


NO_DIGEST = "the frame holds no digest, and nothing binds its rows to the receipt"


def _receipt_in(result: object) -> Mapping[str, Any] | None:
    """Return the receipt of a result, or None for an object that cannot have one; ParameterError
    for a frame without one."""
    attrs = getattr(result, "attrs", None)
    if isinstance(attrs, Mapping):
        facts = attrs.get(RECEIPT)
        if not isinstance(facts, Mapping):
            raise ParameterError(
                "result carries no receipt. Pass the frame that dpframe returned, or its receipt: "
                "some operations drop attrs."
            )
        return facts
    if isinstance(result, Mapping):
        return result
    receipt = getattr(result, "receipt", getattr(getattr(result, "dp", None), "receipt", None))
    return receipt if isinstance(receipt, Mapping) else None


def _verdict_on_receipt(facts: Mapping[str, Any], text: str | None) -> Verdict:
    return verify_receipt(facts, _remake_proof(facts) if text is None else text)


def _remake_proof(facts: Mapping[str, Any]) -> str | None:
    """Plan again with the arguments of a receipt; return the new proof if its digest is the
    receipt's, else None."""
    told = facts.get("proof")
    if not isinstance(told, Mapping) or told.get("text") is not None:
        return None
    if not isinstance(told.get("arguments"), Mapping):
        return None
    import hashlib

    from dpframe.asking.level_plan import proof_text
    from dpframe.counts import ListedCells
    from dpframe.questions.question_list import QUESTIONS
    from dpframe.sources.keys import LARGEST_CUBE

    known = {question.name: question for question in QUESTIONS}
    question = known.get(str(told.get("question")))
    if question is None:
        return None
    arguments = {name: value for name, value in told["arguments"].items() if value is not None}
    arguments.setdefault(question.subject, arguments.get("hierarchy"))
    if isinstance(arguments.get("measures"), list):
        arguments["measures"] = dict(arguments["measures"])
    if arguments.get("user") is None:
        arguments.pop("max_contributions", None)
    if question.name == "rollup" and "user" in arguments:
        arguments.setdefault("contribution", "share")  # which requests do not say
    if arguments.get("contribution") == "share":
        arguments.pop("max_contributions", None)
    sizes = facts.get("listed")
    if question.name == "rollup" and isinstance(sizes, list):  # of keys their numbers decide
        if not all(type(n) is int and 0 < n <= LARGEST_CUBE for n in sizes):
            return None
        arguments["keys"] = ListedCells.of_sizes(sizes, str(arguments.get("keys")))
    try:
        text = proof_text(question.declared(question.plan(arguments)))
    except DpframeError:
        return None
    same = text is not None and hashlib.sha256(text.encode()).hexdigest() == told.get("sha256")
    return text if same else None


def _verdict_on_ledger(book: Ledger) -> Verdict:
    history = book.release_history()
    parts = [_release_to_verify(one) for one in history.releases]
    reserved = [
        ReservedLaw(
            name=one.name,
            epsilon=one.epsilon,
            delta=one.delta,
            times=one.releases,
            law=_exact_law_points(one.law),
        )
        for one in history.reservations
    ]
    why = "an older version composed its releases" if history.restated else None
    return verify_releases(
        parts,
        reserved,
        epsilon=book.epsilon,
        delta=book.delta,
        unless=why,
        protects=history.protects,
    )


def _release_to_verify(one: WrittenRelease) -> LedgerRelease:
    told = one.receipt.get("proof")
    text = told.get("text") if isinstance(told, Mapping) else None
    if text is None:
        text = _remake_proof(one.receipt)
    return LedgerRelease(
        name=one.name,
        receipt=one.receipt,
        verdict=verify_receipt(one.receipt, text),
        block=None if one.block is None else Block(*one.block),
        under=one.under,
        bound_at=partial(bound_at, text),
    )


def _exact_law_points(
    points: tuple[tuple[float, float], ...],
) -> tuple[tuple[Fraction, Fraction], ...]:
    """Return the points of a law as exact fractions. The last point is the budget, whose floats
    stand for their decimals."""
    *curve, (epsilon, delta) = points or ((0.0, 0.0),)
    exact = [(Fraction(e), Fraction(d)) for e, d in curve]
    return (*exact, (decimal_value(epsilon), decimal_value(delta))) if points else ()


def _verdict_on_file(path: Path, text: str | None) -> Verdict:
    try:
        with path.open("rb") as file:
            start = file.read(len(LEDGER))
    except OSError as error:
        raise SourceError(
            f"result ({quoted_path(path)}) cannot be read ({error.strerror}). Check the path."
        ) from None
    if start == LEDGER:
        from dpframe.ledger import Ledger

        return _verdict_on_ledger(Ledger(path))
    if start.startswith(PARQUET):
        return _verdict_on_parquet(path, text)
    whole, told = _file_text(path), None
    with suppress(ValueError, RecursionError):
        told = json.loads(whole)
    if not isinstance(told, dict):
        raise ParameterError(f"{quoted_path(path)} is no JSON object. {WHAT_TO_PASS}")
    if "format" in told and "promise" in told:
        return verify_proof(whole)
    receipt = told.get("receipt", told)
    if not isinstance(receipt, dict) or "guarantee" not in receipt:
        raise ParameterError(f"{quoted_path(path)} holds no receipt. {WHAT_TO_PASS}")
    return TWICE if _repeats_key(whole) else _verdict_on_receipt(receipt, text)


TWICE = Verdict(outcome="failed", reason="the receipt names a key twice")
"""Verdict on a receipt with a repeated key: another reader could take its other value."""


def _repeats_key(text: bytes | str) -> bool:
    """Return whether an object in a JSON text names a key twice."""
    sizes: list[bool] = []
    json.loads(text, object_pairs_hook=lambda pairs: sizes.append(len(dict(pairs)) < len(pairs)))
    return any(sizes)


def _verdict_on_parquet(path: Path, text: str | None) -> Verdict:
    """Return the verdict on a receipt in a file; also on the rows if pandas stored their digest."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    facts, attrs, twice = None, {}, False
    try:
        metadata = pq.read_schema(path).metadata or {}
        texts = metadata.get(b"PANDAS_ATTRS", b"{}"), metadata.get(b"dpframe", b"null")
        attrs, facts = map(json.loads, texts)
        facts = facts or attrs.get(RECEIPT)
        twice = any(map(_repeats_key, texts))
    except (ValueError, RecursionError, OSError, AttributeError, pa.ArrowException):
        pass
    if not isinstance(facts, dict):
        raise ParameterError(f"{quoted_path(path)} holds no receipt. {WHAT_TO_PASS}")
    verdict = TWICE if twice else _verdict_on_receipt(facts, text)
    if DIGEST not in attrs:
        return verdict
    frame = pq.read_table(path).to_pandas()
    frame.attrs.update(attrs)
    return _verdict_on_rows(verdict, frame)


def _file_text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise SourceError(
            f"{quoted_path(path)} cannot be read ({error.strerror}). Check the path."
        ) from None
    except UnicodeDecodeError:
        raise ParameterError(f"{quoted_path(path)} is no text in UTF-8. {WHAT_TO_PASS}") from None
