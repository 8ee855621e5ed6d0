import json
import os
import signal
import subprocess
import sys

import pytest

from multistep.errors import InputError
from multistep.runs.row_log import RowLog

WRITER = """
import sys
from pathlib import Path
from multistep.runs.row_log import RowLog
log = RowLog(Path(sys.argv[1]))
with log.writing():
    print("writing", flush=True)
    for number in range(int(sys.argv[2]), 10_000_000):
        log.append({"number": number, "filling": "x" * 5000})
"""


def test_rows_come_back_as_they_were(tmp_path):
    log = RowLog(tmp_path / "deep" / "rows.jsonl")
    assert log.read() == []
    with log.writing():
        log.append({"score": float("-inf"), "names": ("a", "b"), "line": "one\ntwo"})
        log.append({"score": 0.1})
    assert log.read() == [{"score": "-inf", "names": ["a", "b"], "line": "one\ntwo"}, {"score": 0.1}]


@pytest.mark.parametrize("torn", ['{"number": 3, "x', '{"number": 3}'])
def test_a_torn_last_line_is_dropped_and_the_next_row_starts_a_line(tmp_path, torn):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"number": 1}\n{"number": 2}\n' + torn)
    log = RowLog(path)
    assert [row["number"] for row in log.read()] == [1, 2]
    with log.writing():
        log.append({"number": 4})
    assert [row["number"] for row in log.read()] == [1, 2, 4]


def test_a_damaged_line_is_named(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"number": 1}\nnonsense\n{"number": 2}\n')
    with pytest.raises(InputError, match=r"Line 2 of .*rows.jsonl is damaged"):
        RowLog(tmp_path / "rows.jsonl").read()


def test_killed_at_any_moment_no_written_row_is_lost(tmp_path):
    """A process that does nothing but write is killed in the middle, several times; what is there goes 0, 1,
    2, ..."""
    path, written = tmp_path / "rows.jsonl", 0
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", WRITER, path, str(written)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        while not path.exists() or path.stat().st_size < (written + 20) * 5000:
            assert process.poll() is None
        with pytest.raises(InputError, match="Another process is writing"), RowLog(path).writing():
            pass
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        with RowLog(path).writing() as log:
            numbers = [row["number"] for row in log.read()]
        assert numbers == list(range(len(numbers)))
        assert len(numbers) > written
        written = len(numbers)
    assert all(json.loads(line) for line in path.read_text().splitlines())


def test_rows_of_an_outcome_are_forgotten(tmp_path):
    with RowLog(tmp_path / "rows.jsonl").writing() as log:
        for number, outcome in enumerate(("finished", "failed", "diverged", "failed")):
            log.append({"number": number, "job": str(number), "outcome": outcome})
        log.forget("failed", jobs={"0", "1"})
        assert [row["number"] for row in log.read()] == [0, 2, 3]
        log.forget("failed")
        assert [row["number"] for row in log.read()] == [0, 2]
