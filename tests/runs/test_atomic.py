"""Files are whole or not there, one process writes at a time, and nothing stays of those that were killed."""

import errno
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from multistep.cli import main
from multistep.errors import InputError
from multistep.runs.array_files import read_arrays, write_arrays
from multistep.runs.atomic import alone_with, write_text
from multistep.runs.row_log import RowLog
from multistep.runs.sweep import sweep

KILLED = """
import sys, time
from pathlib import Path
from multistep.runs.atomic import replacing
with replacing(Path(sys.argv[1])) as temporary:
    temporary.write_text("half")
    temporary.with_name(temporary.name + ".reserved").write_text("much")
    print(flush=True)
    time.sleep(60)
"""
FULL = """
import resource, sys
from pathlib import Path
import numpy as np
from multistep.errors import InputError
from multistep.runs.array_files import write_arrays
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
try:
    write_arrays(Path(sys.argv[1]), "kind", {}, {"a": np.ones(20_000)})
except InputError as error:
    print(error)
"""


def test_what_a_killed_process_left_is_swept_by_the_next_one(tmp_path):
    path = tmp_path / "rows.csv"
    process = subprocess.Popen([sys.executable, "-c", KILLED, path], stdout=subprocess.PIPE)
    process.stdout.readline()
    command = [
        sys.executable,
        "-c",
        "import sys; from pathlib import Path; from multistep.runs.atomic "
        "import write_text; write_text(Path(sys.argv[1]), 'whole')",
    ]
    subprocess.run([*command, tmp_path / "other.csv"], check=True)
    assert len(list(tmp_path.iterdir())) == 3  # whoever is alive is left alone
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    (tmp_path / ".mine.1234.csv").write_text("somebody else's")
    subprocess.run([*command, path], check=True)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [".mine.1234.csv", "other.csv", "rows.csv"]


@pytest.mark.parametrize("size", [0, 16_000, 40_000])
def test_a_full_disk_is_one_sentence_and_keeps_what_was_there(tmp_path, size):
    path = tmp_path / "model.safetensors"
    write_arrays(path, "kind", {"before": True}, {})
    answer = subprocess.run(
        [sys.executable, "-c", FULL, path, str(size)], capture_output=True, text=True, check=True
    )
    assert answer.stdout.startswith(f"Cannot write {path}: File too large; free some space")
    assert answer.stdout.count("\n") == 1
    assert read_arrays(path, "kind", "damaged").header == {"before": True}
    assert len(list(tmp_path.iterdir())) == 1


def test_arrays_of_any_layout_come_back_with_the_same_bytes_each_time(tmp_path):
    arrays = {
        "f": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "none": np.zeros(()),
        "b": np.ones(2, bool),
    }
    for name in ("one", "two"):
        write_arrays(tmp_path / name, "kind", {"a": [1, None]}, arrays)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    header, found, is_whole = read_arrays(tmp_path / "one", "kind", "damaged")
    assert (header, is_whole) == ({"a": [1, None]}, True)
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
    assert read_arrays(tmp_path / "one", "another", "damaged").header is None


@pytest.mark.parametrize(
    "command",
    [["score", "no.safetensors", "no.csv"], ["fit", "no.csv"], ["agent", "plan", "no", "--starts", "no"]],
)
def test_a_second_command_in_the_same_folder_is_told(tmp_path, capsys, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    with alone_with(Path("out")), pytest.raises(SystemExit) as ended:
        main([*command, "--out", "out"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "Another process is writing to" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    "line",
    [b"\xff\xfe{}", b"[" * 100_000, b"3", b'{"check": "0000000000000000", "job": "a"}', b'{"check": "'],
)
def test_damaged_rows_get_one_sentence(tmp_path, line):
    (tmp_path / "rows.jsonl").write_bytes(line + b"\n")
    with pytest.raises(InputError, match=r"Line 1 of .*rows.jsonl is damaged"):
        RowLog(tmp_path / "rows.jsonl").read()


def test_a_changed_row_is_found(tmp_path):
    log = RowLog(tmp_path / "rows.jsonl")
    log.append({"job": "a", "score": 0.125})
    write_text(log.path, log.path.read_text().replace("0.125", "0.625"))
    with pytest.raises(InputError, match=r"Line 1 of .*rows.jsonl is damaged"):
        log.read()


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"job": 3, "outcome": "finished"},
        {"job": "a", "outcome": 3},
        {"job": "a", "outcome": "finished", "versions": 3},
    ],
)
def test_a_sweep_refuses_rows_that_are_not_of_fits(tmp_path, row):
    log = RowLog(tmp_path / "rows.jsonl")
    log.append(row)
    with pytest.raises(InputError, match=r"Line 1 of .* is not the row of a fit"):
        sweep([], {}, log, None)


def test_a_disk_that_is_full_while_figures_are_drawn_is_one_sentence(monkeypatch, capsys):
    def full(config):
        raise OSError(errno.ENOSPC, "No space left on device", "rows.png")

    monkeypatch.setattr("multistep.commands.collect.run_datasets", full)
    with pytest.raises(SystemExit) as ended:
        main(["datasets"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        "multistep: Cannot write rows.png: No space left on device; free some space and start the same "
        "command again.\n"
    )


def test_a_folder_whose_parent_is_not_ours_is_locked_too(tmp_path, monkeypatch):
    (tmp_path / "out").mkdir()
    monkeypatch.setattr("os.access", lambda *_: False)
    with alone_with(tmp_path / "out"):
        assert [path.name for path in tmp_path.iterdir()] == ["out"]
        with pytest.raises(InputError, match="Another process is writing"), alone_with(tmp_path / "out"):
            pass
