"""What benchmarks share: rows, processes of their own that take turns, ratios, and tables."""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "data"
LEVELS = ["a", "b", "c", "d"]
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
SPLIT = ", ".join(f"split_part({{0}}, '.', {i + 1}) AS {name}" for i, name in enumerate(LEVELS))
"""SQL of the four numbers of an address of IPv4."""

Figures = dict[str, Any]
Runs = dict[str, list[Figures]]
Side = tuple[Any, ...] | Callable[[], Any]
"""A call, or for a process of its own a function that measures one, and its arguments."""

# -- rows ------------------------------------------------------------------------------------------


def write_rows(query: str, file: Path) -> Path:
    import duckdb

    duckdb.sql(f"COPY ({query}) TO '{file}' (FORMAT parquet)")
    return file


def workload(rows: int, start: int = 0) -> str:
    """The statement of ``peers_workload.sql``, of so many rows."""
    text = Path(__file__).with_name("peers_workload.sql").read_text("utf-8")
    return text.replace("range($rows)", f"range({start}, {start + rows})")


def exact_rollup(source: str, threshold: int = 1, levels: Iterable[str] = LEVELS) -> str:
    """The reference, which is not private: DuckDB's own rollup of what reaches a threshold."""
    names = ", ".join(levels)
    return (
        f"SELECT {names}, count(*) AS n FROM {source} GROUP BY ROLLUP ({names}) "
        f"HAVING count(*) >= {threshold}"
    )


# -- measurements ----------------------------------------------------------------------------------


def timed(call: Callable[[], Any]) -> Figures:
    """Seconds of a call, those of processors, the peak memory of this process, and its rows."""
    start, busy = time.perf_counter(), time.process_time()
    result = call()
    taken = {"seconds": time.perf_counter() - start, "busy": time.process_time() - busy}
    return {**taken, "mb": peak(), "rows": len(result) if hasattr(result, "__len__") else result}


def peak() -> float:
    """The operating system's figure, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def alone(function: Callable[..., Any], *arguments: Any, python: str = sys.executable) -> Figures:
    """What a function of a benchmark tells in a process of its own."""
    module = function.__module__
    if module == "__main__":
        module = sys.modules["__main__"].__spec__.name  # type: ignore[union-attr]
    code = "import sys; from tests.benchmarks.bench import child; child(*sys.argv[1:])"
    call = [python, "-c", code, module, function.__name__, json.dumps(arguments, default=str)]
    said = printed(call)
    return json.loads(said.splitlines()[-1])  # type: ignore[no-any-return]


def child(module: str, name: str, arguments: str) -> None:
    print(json.dumps(getattr(import_module(module), name)(*json.loads(arguments))))


def printed(call: list[str]) -> str:
    """What a process prints, whose modules are compiled."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(call, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def in_turns(sides: Mapping[str, Side], turns: int, *, uncounted: int = 1) -> Runs:
    """Figures of sides that take turns; the first turn warms up, and is not counted."""
    runs: Runs = {name: [] for name in sides}
    for turn in range(turns + uncounted):
        for name, side in sides.items():
            figures = alone(*side) if isinstance(side, tuple) else timed(side)
            if turn >= uncounted:
                runs[name].append(figures)
    return runs


# -- tables ----------------------------------------------------------------------------------------


def middle(runs: list[Figures], what: str) -> float:
    return statistics.median(run[what] for run in runs)


def spread(figures: Iterable[float], digits: int = 2) -> str:
    """The median and the range."""
    listed = [*figures]
    ends = (statistics.median(listed), min(listed), max(listed))
    return "{} ({} to {})".format(*(f"{one:.{digits}f}" for one in ends))


def ratios(runs: list[Figures], others: list[Figures], what: str) -> list[float]:
    """Turn by turn."""
    return [one[what] / other[what] for one, other in zip(runs, others, strict=True)]


def head(*names: object) -> None:
    row(*names)
    row(*["---"] * len(names))


def row(*cells: object) -> None:
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def compared_head() -> None:
    ratio = ("time, ratio", "of processors, ratio", "memory, ratio")
    head("job", "side", "seconds", "of processors", "MB", "rows", *ratio)


def compared(title: str, runs: Runs, base: str) -> None:
    """A row a side: medians, and ratios to the base."""
    for name, each in runs.items():
        cells = [spread([run["seconds"] for run in each]), f"{middle(each, 'busy'):.2f}"]
        cells += [f"{middle(each, 'mb'):.0f}", str(each[0]["rows"])]
        beside = [spread(ratios(each, runs[base], what)) for what in ("seconds", "busy", "mb")]
        row(title, name, *cells, *(beside if name != base else ("", "", "")))


def options(**defaults: Any) -> Any:
    """What the command line says: of a number or text its default, of a tuple one of them or None,
    of a type what has to be given, by place."""
    parser = argparse.ArgumentParser()
    for name, default in defaults.items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(default, type):
            parser.add_argument(name, type=default)
        elif isinstance(default, bool):
            parser.add_argument(flag, action="store_true")
        elif isinstance(default, tuple):
            parser.add_argument(flag, choices=default)
        else:
            kind = _whole if type(default) is int else type(default or "")
            parser.add_argument(flag, type=kind, default=default)
    return parser.parse_args()


def _whole(text: str) -> int:
    """As people write large numbers: 1e7."""
    return int(float(text))


def with_data(*parts: Callable[[], None]) -> None:
    for part in parts:
        if SHARED.exists():
            part()
        else:
            print(f"{part.__name__}: skipped, the data sets are not here")
