"""Published records of real plants, as the field scores a model on them: a free run from the first outputs.

The protocol is that of github GerbenBeintema/nonlinear_benchmarks: of a test record a model sees the input
and the first few outputs, and is scored on the outputs after them.
"""

from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import polars as pl
from jaxtyping import Float
from numpy import ndarray

from multistep.data import Episodes
from multistep.dynamics import AbstractDynamics
from multistep.errors import InputError
from multistep.evaluation import free_run

TRAINING = 0.8
"""Share of the training record that is trained on; the rest validates."""
OUTPUT, INPUT = "y", "u"
"""What output and input are called in the episodes, whatever the columns of the file."""


@dataclass(frozen=True)
class Record:
    """A stretch of a file."""

    file: str
    output: str = OUTPUT
    """Column of the output."""
    input: str = INPUT
    """Column of the input."""
    first: int = 0
    """Its first sample."""
    last: int | None = None
    """The first sample that is no longer of it; none: it goes on to the end."""


@dataclass(frozen=True)
class Benchmark:
    """A plant, its records, and how a free run over them is scored."""

    name: str
    unit: str
    """Customary unit of the error."""
    scale_to_unit: float
    """How many of those one unit of the recorded output is."""
    recorded: tuple[str, str]
    """Units of output and input in the file."""
    time_step: float
    """Seconds from one sample to the next."""
    num_seen: int
    """Outputs at the start of a test record that a model is given; they are not scored."""
    train: Record
    tests: tuple[tuple[str, Record], ...]
    """Test records by name."""

    def paper_rmse(self, test: str) -> dict[str, float]:
        """What others report for this test record, by model, in the customary unit."""
        own = paper_table().filter((pl.col("benchmark") == self.name) & (pl.col("test") == test))
        return dict(own.select("model", "rmse").iter_rows())


@dataclass(frozen=True, eq=False)
class BenchmarkData:
    """The records of a benchmark; each is one episode."""

    train: Episodes
    tests: dict[str, Episodes]


TANKS, SILVERBOX, WIENER = "cascaded_tanks.csv", "silverbox.parquet", "wiener_hammerstein.parquet"
SILVERBOX_SPLIT = 40_650 + 3 * (127_400 - 40_650) // 4
WIENER_SPLIT = 5_200 + 100_000
BENCHMARKS = {
    each.name: each
    for each in (
        Benchmark(
            name="cascaded_tanks",
            unit="V",
            scale_to_unit=1.0,
            recorded=("V", "V"),
            time_step=4.0,
            num_seen=5,
            train=Record(TANKS, "yEst", "uEst"),
            tests=(("test", Record(TANKS, "yVal", "uVal")),),
        ),
        Benchmark(
            name="silverbox",
            unit="mV",
            scale_to_unit=1e3,
            recorded=("V", "V"),
            time_step=1 / 610.35,
            num_seen=50,
            train=Record(SILVERBOX, first=40_650, last=SILVERBOX_SPLIT),
            tests=(
                ("multisine", Record(SILVERBOX, first=SILVERBOX_SPLIT, last=127_400)),
                ("arrow", Record(SILVERBOX, first=100, last=40_575)),
                ("arrow_no_extrapolation", Record(SILVERBOX, first=100, last=32_100)),
            ),
        ),
        Benchmark(
            name="wiener_hammerstein",
            unit="mV",
            scale_to_unit=1e3,
            recorded=("V", "V"),
            time_step=1 / 51_200,
            num_seen=50,
            train=Record(WIENER, first=5_200, last=WIENER_SPLIT),
            tests=(("test", Record(WIENER, first=WIENER_SPLIT, last=184_000)),),
        ),
        Benchmark(
            name="emps",
            unit="mm",
            scale_to_unit=1e3,
            recorded=("m", "V"),
            time_step=1e-3,
            num_seen=20,
            train=Record("emps_train.parquet", "qm", "vir"),
            tests=(("test", Record("emps_test.parquet", "qm", "vir")),),
        ),
    )
}


def find_benchmark(name: str) -> Benchmark:
    """The benchmark of this name."""
    if name not in BENCHMARKS:
        raise InputError(f"There is no benchmark {name}: name one of {', '.join(BENCHMARKS)}.")
    return BENCHMARKS[name]


def read_benchmark(benchmark: Benchmark, folder: Path) -> BenchmarkData:
    """The benchmark's records, each one episode with output `y` and input `u`, in the file's units.

    **Arguments:**

    - `benchmark`: which one.
    - `folder`: where its files are, or where a folder `benchmarks` with them is.
    """
    tests = {name: _read(benchmark, record, folder) for name, record in benchmark.tests}
    return BenchmarkData(_read(benchmark, benchmark.train, folder), tests)


def free_run_rmse(model: AbstractDynamics, test: Episodes, benchmark: Benchmark) -> float:
    """Root mean squared error of the free run over a test record from its first outputs, in the customary
    unit; infinite if it diverges."""
    (run,) = free_run(model, test, num_past=benchmark.num_seen)
    return float(run.rmse[0]) * benchmark.scale_to_unit


def paper_table() -> pl.DataFrame:
    """What others report, a row for each benchmark, test record and model: most of it after Champneys et al.,
    2024."""
    source = files("multistep.studies").joinpath("paper_numbers", "identification.csv")
    with source.open("rb") as file:
        return pl.read_csv(file.read())


def _read(benchmark: Benchmark, record: Record, folder: Path) -> Episodes:
    path = next((path for path in _places(record.file, folder) if path.exists()), None)
    if path is None:
        raise InputError(
            f"There is no {record.file} in {folder}, nor in a folder benchmarks there: name the folder that "
            "has it."
        )
    outputs, inputs = _columns(path, (record.output, record.input))
    last = len(outputs) if record.last is None else record.last
    if last > len(outputs):
        raise InputError(
            f"{path} has {len(outputs)} samples, and {benchmark.name} needs {last}: take the whole record."
        )
    outputs, inputs = outputs[record.first : last], inputs[record.first : last]
    found = Episodes.of([(outputs, inputs[:-1])], state_names=[OUTPUT], action_names=[INPUT])
    units = dict(zip((OUTPUT, INPUT), benchmark.recorded, strict=True))
    origin = f"{record.file}, {record.output} from sample {record.first}"
    return replace(found, time_step=benchmark.time_step, units=units, origins=(origin,))


def _places(file: str, folder: Path) -> tuple[Path, Path]:
    return folder / file, folder / "benchmarks" / file


def _columns(path: Path, names: tuple[str, str]) -> list[Float[ndarray, "samples 1"]]:
    """These columns of the file: `load` would leave out the last input, which follows the last step."""
    try:
        table = pl.read_csv(path) if path.suffix == ".csv" else pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(f"{path} cannot be read as a table: fetch it again.") from error
    if missing := [name for name in names if name not in table.columns]:
        raise InputError(f"{path} has no column {missing[0]}; it has {', '.join(table.columns)}.")
    found = table.select(pl.col(name).cast(float, strict=False) for name in names).to_numpy()
    used = np.flatnonzero(~np.isnan(found).all(axis=1))  # a last line of commas alone is none
    found = found[: used[-1] + 1 if len(used) else 0]
    return [found[:, :1], found[:, 1:]]
