"""No mutant survives: what each auditor catches, and that the shipped code passes all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpframe.mechanisms import offline_hhh
from tests.privacy.mutants import Code, Histograms, Mutant, level_law, mutants, shipped, table

ALL = mutants()
SHOWN = [mutant for mutant in ALL if mutant.verifier is not None]
HIDDEN = [mutant for mutant in ALL if mutant.verifier is None]


def test_there_are_enough_mutants() -> None:
    """Law: at least thirty, of mechanisms, accountants, noise and code, with names of their own."""
    assert len({mutant.name for mutant in ALL}) == len(ALL) >= 30
    assert {mutant.where for mutant in ALL} == {"mechanism", "accountant", "noise", "code"}


@pytest.mark.parametrize("mutant", SHOWN, ids=lambda mutant: mutant.name)
def test_the_verifier_refuses_wrong_numbers(mutant: Mutant) -> None:
    """Law: a proof of what is really drawn does not prove what was promised."""
    assert mutant.verifier is not None
    assert mutant.verifier()


@pytest.mark.parametrize("mutant", HIDDEN, ids=lambda mutant: mutant.name)
@pytest.mark.evidence
def test_enumeration_rejects_wrong_code(mutant: Mutant) -> None:
    """Law: what no proof can show, the exact law of all outputs does."""
    assert mutant.enumeration is not None
    assert mutant.enumeration()


def test_what_is_shipped_passes() -> None:
    """Law: the same auditors let the numbers pass that are drawn with."""
    assert not shipped().refused()
    noise = level_law("laplace", 3)
    assert not Histograms(noise, 3, noise.highest + 2).refused()
    assert not Histograms(noise, 3, noise.highest + 2).exceeds()


@pytest.mark.evidence
def test_what_is_shipped_passes_by_draws_and_outputs() -> None:
    """Law: so does the code, over all outputs and by draws."""
    assert not shipped().exceeds()
    assert not shipped().audited()
    for chosen_only in (False, True):
        code = Code(offline_hhh.run, chosen_only)
        assert not code.exceeds()
        assert not code.audited()


@pytest.mark.evidence
def test_the_table_in_the_documents_is_what_is_caught() -> None:
    """Law: ``python -m tests.privacy.mutants`` printed it; every line has at least one catch."""
    made = table()
    assert made in Path(__file__).with_name("mutants.md").read_text("utf-8")
    assert all("caught" in line for line in made.splitlines()[2:])
