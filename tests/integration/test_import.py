"""``import dpframe`` is light, and ``df.dp`` is there whichever import comes first."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.engines


def said(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_dpframe_loads_no_library() -> None:
    """Law: libraries load when they are first used, and so do the rooms of dpframe."""
    code = "import sys, dpframe; print([m for m in {} if m in sys.modules])"
    heavy = ["pandas", "scipy", "dp_accounting", "polars", "plotly", "numpy", "pyarrow", "duckdb"]
    heavy += ["dpframe.asking", "dpframe.hierarchy", "dpframe.ledger", "importlib.resources"]
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


def test_the_questions_come_with_the_accessor_and_bring_no_library() -> None:
    """Law: the rooms of the questions load with the accessor and not before. Libraries that only
    some questions or mechanisms need do not."""
    code = (
        "import sys, dpframe; room = 'dpframe.questions.prefix_tree.ask'; "
        "import pandas; before = room in sys.modules; pandas.DataFrame.dp; "
        "rare = {'numba', 'scipy', 'dp_accounting', 'polars', 'plotly'} & {*sys.modules}; "
        "print(before, room in sys.modules, rare)"
    )
    assert said(code) == "False True set()"


LOADED = """
before = {{m for m in sys.modules if m.startswith('dpframe')}}
frame = pd.DataFrame({{'a': ['x', 'y'] * 99, 'b': range(198)}})
frame.dp.{question}(['a', 'b'], epsilon=1, delta=1e-6)
print(sorted(m for m in sys.modules if m.startswith('dpframe') and m not in before))
"""


@pytest.mark.parametrize("question", ["hhh", "tree_counts"])
def test_a_first_release_of_a_frame_loads_nothing_of_ours(question: str) -> None:
    """Law: beside pandas comes what a first release needs; and no database, no thread, no ledger,
    no mechanism that nobody asked for."""
    rare = "[m for m in ('book', 'store') if f'dpframe.ledger.{m}' in sys.modules]"
    rare += " + [m for m in ('sketch_plans', 'cells_plan')"
    rare += " if f'dpframe.questions.hhh.{m}' in sys.modules]"
    state = (
        f"print({rare}, threading.active_count(), "
        "sys.modules['dpframe._duck.connections']._databases)"
    )
    code = (
        f"import sys, threading, pandas as pd, dpframe; {state}{LOADED.format(question=question)}"
    )
    assert said(code).splitlines() == ["[] 1 {}", "[]"]


def test_loading_pandas_loads_nothing_of_ours() -> None:
    """Law: pandas may be loaded where a lock is held that our modules need, as by Arrow; so only
    the accessor's name is added. Where ours cannot be loaded, whoever asks for it is told."""
    shown = "print('dpframe.doors.accessor' in sys.modules, 'dp' in vars(pandas.DataFrame))"
    arrow = "import sys, dpframe, pyarrow as pa; pa.array([1]).to_pandas(); import pandas"
    assert said(f"{arrow}; {shown}") == "False True"
    for imports in ("dpframe, pandas", "pandas, dpframe"):
        broken = f"import sys; sys.modules['dpframe.common.digest'] = None; import {imports}"
        told = "\ntry: pandas.DataFrame().dp\nexcept ImportError as e: print('digest' in str(e))"
        assert said(f"{broken}; {shown}{told}").splitlines() == ["False True", "True"]


def test_what_is_public_is_there_and_nothing_else_is_shown() -> None:
    """Law: every public name can be had by ``dp.name``, ``from dpframe import name`` and ``*``;
    ``dir`` shows these alone; an unknown name is an AttributeError that names it."""
    for code in ("[getattr(dpframe, n) for n in dpframe.__all__]", "exec('from dpframe import *')"):
        shown = "all(n[0] != '_' or n == '__version__' for n in dir(dpframe))"
        assert said(f"import dpframe; {code}; print({shown})") == "True"
        assert said(f"import dpframe; {code}; print('errors' in dir(dpframe))") == "False"
    for name in ("hhh", "StreamingHHH", "BudgetError", "sum", "Ledger"):
        assert said(f"from dpframe import {name} as found; print(found.__name__)") == name
    code = "import dpframe\ntry: dpframe.hhhh\nexcept AttributeError as error: print(error)"
    assert said(code) == "module 'dpframe' has no attribute 'hhhh'. Did you mean 'hhh'?"


def test_pickles_do_not_depend_on_what_is_loaded() -> None:
    """Law: an object comes out of a pickle in a process that has used nothing."""
    made = "import pickle, dpframe as dp; print(pickle.dumps(dp.ip('src')).hex())"
    code = f"import pickle, dpframe; print(pickle.loads(bytes.fromhex('{said(made)}')).spec)"
    assert said(code) == "ip:src"


@pytest.mark.parametrize("given", [["--help"], ["demo", "--help"], ["ledger", "--help"]])
def test_help_of_the_command_line_loads_no_library(given: list[str]) -> None:
    """Law: help costs no library, and is that of the whole parser."""
    code = (
        "import sys; from dpframe.doors.cli.main import command_parser\n"
        f"try: command_parser({given}).parse_args({given})\n"
        "except SystemExit as end: assert end.code == 0\n"
        "assert not {'numpy', 'pyarrow', 'duckdb', 'pandas'} & set(sys.modules)"
    )
    whole = (
        f"from dpframe.doors.cli.main import command_parser; command_parser().parse_args({given})"
    )
    assert said(code) == said(whole)
    assert "usage: " in said(code)


def test_pandas_is_loaded_as_if_nobody_had_watched() -> None:
    """Nothing of dpframe stays in the import machinery once both libraries of frames are loaded."""
    code = (
        "import sys, dpframe, polars, pandas; "
        "assert 'exec_module' not in vars(pandas.__loader__); "
        "print(type(pandas.__loader__).__name__, type(pandas.__spec__.loader).__name__, "
        "[f for f in sys.meta_path if 'dpframe' in type(f).__module__])"
    )
    assert said(code) == "SourceFileLoader SourceFileLoader []"


@pytest.mark.parametrize("first", ["polars, pandas", "pandas, polars"])
def test_frames_have_the_accessor_in_any_order_of_imports(first: str) -> None:
    """Law: to ask whether pandas is there, as Polars does, is not to import it."""
    code = (
        f"import importlib.util, dpframe; importlib.util.find_spec('polars'); import {first}; "
        "print([hasattr(kind, 'dp') for kind in (pandas.DataFrame, polars.DataFrame)])"
    )
    assert said(code) == "[True, True]"


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
