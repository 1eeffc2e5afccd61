"""``import dpframe`` is light, and ``df.dp`` is there whichever import comes first."""

from __future__ import annotations

import subprocess
import sys

import pytest


def said(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_dpframe_loads_neither_pandas_nor_the_accountants_libraries() -> None:
    """Heavy libraries load when they are first used."""
    code = "import sys, dpframe; print([m for m in {} if m in sys.modules])"
    heavy = ["pandas", "scipy", "dp_accounting", "polars", "plotly"]
    heavy += ["numpy.random", "logging", "zoneinfo"]  # pandas loads them, before anybody forks
    assert said(code.format(heavy)) == "[]"


@pytest.mark.parametrize(
    "imports", ["import dpframe, pandas as pd", "import pandas as pd, dpframe"]
)
def test_the_accessor_is_there_whichever_import_comes_first(imports: str) -> None:
    """The order of two imports means nothing."""
    frame = "pd.DataFrame({'a': ['x']})"
    code = f"{imports}; print({frame}.dp.explain(['a'], epsilon=1, delta=1e-6).plan.height)"
    assert said(code) == "1"


def test_pandas_is_loaded_as_if_nobody_had_watched() -> None:
    """Nothing of dpframe stays in the import machinery."""
    code = (
        "import sys, dpframe, pandas; "
        "print(type(pandas.__loader__).__name__, type(pandas.__spec__.loader).__name__, "
        "[f for f in sys.meta_path if 'dpframe' in type(f).__module__])"
    )
    assert said(code) == "SourceFileLoader SourceFileLoader []"


def test_an_interpreter_that_used_dpframe_ends_without_a_word() -> None:
    """Nothing keeps the database alive beyond the interpreter, which would complain on stderr."""
    code = (
        "import pandas as pd, dpframe as dp; "
        "dp.hhh(pd.DataFrame({'a': ['x'] * 99}), ['a'], epsilon=1, delta=1e-6)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_import_says_nothing_when_the_interpreter_ends() -> None:
    """Law: nothing outlives the interpreter: registries of typing and pandas hold no function of
    ours, whose modules hold types of DuckDB, which would be reported on standard error."""
    code = "import dpframe, pandas; pandas.DataFrame({'a': [1]}).dp"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert run.stderr == ""
    assert run.stdout == ""
