"""Files that may be from anybody: what is damaged, huge or leads elsewhere gets one sentence."""

import csv
import io
import json
import time
import zipfile
from pathlib import Path

import h5py
import numpy as np
import polars as pl
import pytest

from multistep.data import hdf5_checks, load, save
from multistep.errors import InputError
from systems import random_episodes

XU = {"states": ["x"], "actions": ["u"]}


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def refused(match, name, **options):
    with pytest.raises(InputError, match=match) as caught:
        load(name, **options)
    assert "\n" not in str(caught.value)


def write_npz(name, **changes):
    arrays = {"states": np.zeros((3, 1)), "actions": np.zeros((2, 1)), "lengths": np.array([2])}
    np.savez(name, **(arrays | changes))


def test_lengths_that_overflow_and_columns_that_are_none():
    write_npz("a.npz", states=np.zeros((9, 1)), actions=np.zeros((4, 1)), lengths=np.array([2**62] * 4 + [4]))
    refused(r"actions of a.npz has 4 rows, its lengths ask for|states of a.npz has 9 rows", "a.npz")
    write_npz("b.npz", states=np.zeros((3, 0)))
    refused("states of b.npz have no columns", "b.npz")
    write_npz("c.npz", actions=np.zeros((2, 0)))
    refused("actions of c.npz have no columns", "c.npz")


def test_a_member_that_is_no_array_and_headers_that_are_none():
    for number, header in enumerate(
        [b"x", b"\x93NUMPY\x01\x00\x10\x00{'descr': (((((", b"\x93NUMPY\x01\x00\x04\x00('''"]
    ):
        write_npz("a.npz")
        with zipfile.ZipFile("a.npz") as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        with zipfile.ZipFile(f"{number}.npz", "w") as archive:
            for name, content in parts.items():
                archive.writestr(name, header if name == "states.npy" else content)
        refused(rf"{number}.npz cannot be read as .npz \(.*\): write it again", f"{number}.npz")


def test_a_bomb_is_refused_before_it_is_unpacked_and_loaded_where_that_is_asked_for(monkeypatch):
    rows = 2_000_000
    with zipfile.ZipFile("bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, shape in (("states", (rows + 1, 4)), ("actions", (rows, 1)), ("unused", (rows, 20))):
            content = io.BytesIO()
            np.lib.format.write_array(content, np.zeros(shape, np.float64))
            archive.writestr(f"{name}.npy", content.getvalue())
        content = io.BytesIO()
        np.lib.format.write_array(content, np.array([rows]))
        archive.writestr("lengths.npy", content.getvalue())
    refused(r"bomb.npz has [\d.]+ MB and would unpack to 80 MB: .*MULTISTEP_LIMITS=off", "bomb.npz")
    monkeypatch.setenv("MULTISTEP_LIMITS", "off")
    assert load("bomb.npz").num_steps == rows


def write_hdf5(name, change):
    save(random_episodes([5, 4]), name)
    with h5py.File(name, "r+") as file:
        change(file)


def _elsewhere(file):
    del file["observations"]
    file.create_dataset("observations", (9, 2), "f4", external=[(__file__, 0, h5py.h5f.UNLIMITED)])


def _virtual(file):
    layout = h5py.VirtualLayout((9, 3), "f8")
    layout[:] = h5py.VirtualSource("other.hdf5", "observations", (9, 3))
    del file["observations"]
    file.create_virtual_dataset("observations", layout)


def _link(file):
    file["more"] = h5py.ExternalLink("other.hdf5", "/observations")


def _null(file):
    del file["observations"]
    file["observations"] = h5py.Empty("f4")


def _huge(file):
    del file["actions"]
    file.create_dataset("actions", (2**27, 2), "f4", chunks=(2**20, 2), compression="gzip")


def _name(file):
    file["observations"].attrs.create("names", np.array([b"\xff\xfe"] * 3, "S2"))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_elsewhere, "observations stands in another file"),
        (_virtual, "observations stands in another file"),
        (_link, "link more leads to another file"),
        (_null, "array observations is empty"),
        (_huge, "would take 1074 MB"),
        (_name, "codec can't decode"),
    ],
)
def test_an_hdf5_that_leads_elsewhere_or_is_none(change, reason):
    save(random_episodes([5, 4]), "other.hdf5")
    write_hdf5("a.hdf5", change)
    refused(rf"a.hdf5 cannot be read as .hdf5 \(.*{reason}.*\): download or write it again", "a.hdf5")


def test_an_hdf5_that_keeps_its_library_busy_is_given_up(monkeypatch):
    save(random_episodes([5, 4]), "a.hdf5")
    monkeypatch.setattr(hdf5_checks, "SECONDS", 0.01)
    refused(r"keeps the HDF5 library busy for more than 0 seconds", "a.hdf5")


def test_an_hdf5_that_crashes_its_library_does_not_crash_us(monkeypatch):
    save(random_episodes([5, 4]), "a.hdf5")
    Path("crash.py").write_text("import os\nos.abort()\n")
    monkeypatch.setattr(hdf5_checks, "PROBE", Path("crash.py"))
    refused(r"it crashes the HDF5 library", "a.hdf5")


def test_csv_files_with_long_cells_and_returns():
    long = "n" * 200_000
    Path("a.csv").write_text(f'x,u,"note"\n1,2,"{long}"\n3,4,"b"\n5,6,c\n')
    assert load("a.csv", **XU).num_steps == 2
    Path("b.csv").write_text(f'x,u,"{long}"\n1,2,3\n3,4,5\n')
    assert load("b.csv", **XU).num_steps == 1
    Path("c.csv").write_bytes(b'x,u,note\n1,2,"a\rb"\n3,4,"b"\r\n5,6,"c" \r \n')
    refused(r"c.csv, row 3 cannot be taken apart into cells", "c.csv", **XU)
    Path("d.csv").write_bytes(b'x,u,"note"\r\n1,2,"a"\r\n3,4,"b"\r\n')
    assert load("d.csv", **XU).num_steps == 1
    Path("e.csv").write_bytes(b'x,u,"no\rte"\n1,2,"a"\n')
    refused("e.csv has no header", "e.csv", **XU)


def test_a_table_of_many_columns_takes_no_quadratic_time():
    names = [f"c{number}" for number in range(20_000)]
    with open("wide.csv", "w") as file:
        csv.writer(file).writerows([[*names, "x", "u"], *[[1] * 20_002] * 3])
    started = time.process_time()
    assert load("wide.csv", **XU).num_steps == 2
    assert time.process_time() - started < 2.5  # 6 s before, in a quiet process


@pytest.mark.parametrize(
    "roles",
    [
        "{",
        "[" * 100_000,
        "[1]",
        '{"states": 1}',
        '{"states": [1], "actions": {"a": 2}}',
        '{"episode": [3]}',
        '{"rewards": 7}',
        '{"states": ["x"], "actions": ["u"], "episode": "nowhere"}',
    ],
)
def test_parquet_metadata_that_are_none(roles):
    """What names columns is refused, what is only known of them is left."""
    table = pl.DataFrame({"x": [1.0, 2.0, 3.0], "u": [1.0, 2.0, 3.0], "episode": [1, 1, 1]})
    table.write_parquet("a.parquet", metadata={"multistep": roles})
    refused(r"metadata of a.parquet|a.parquet has no column nowhere", "a.parquet")


def test_what_parquet_metadata_know_may_be_anything():
    roles = (
        '{"states": ["x"], "actions": ["u"], "episode": "e", "units": 3, "origins": [2], "time_step": "a"}'
    )
    table = pl.DataFrame({"x": [1.0, 2.0, 3.0], "u": [1.0, 2.0, 3.0], "e": [1, 1, 1]})
    table.write_parquet("a.parquet", metadata={"multistep": roles})
    assert load("a.parquet").num_steps == 2
    assert load("a.parquet").time_step is None


def test_a_parquet_file_that_claims_far_more_than_it_has():
    rows = pl.DataFrame({"x": [0.0], "u": [0.0]}).select(pl.all().repeat_by(5_000_000).explode())
    rows.write_parquet("a.parquet")
    refused("a.parquet has .* MB and would unpack to 80 MB", "a.parquet", **XU)


def test_a_minari_dataset_whose_parts_do_not_fit():
    def damaged(change):
        save(random_episodes([4, 3], rewards=True), f"./{change.__name__}-v0")
        with h5py.File(f"{change.__name__}-v0/data/main_data.hdf5", "r+") as file:
            change(file)
        return f"./{change.__name__}-v0"

    def no_rewards(file):
        del file["episode_1/rewards"]

    def text(file):
        del file["episode_0/actions"]
        file["episode_0/actions"] = "text"

    def link(file):
        file["episode_1/more"] = h5py.ExternalLink("other.hdf5", "/")

    def other_width(file):
        del file["episode_1/observations"]
        file["episode_1/observations"] = np.zeros((4, 7))

    for change in (no_rewards, text, link, other_width):
        refused(rf"{change.__name__}-v0", damaged(change))
    save(random_episodes([4]), "./card-v0")
    for card in ("{", "[" * 100_000, "[]", json.dumps({"observation_space": 3})):
        Path("card-v0/data/metadata.json").write_text(card)
        refused(r"card-v0 cannot be read as a Minari dataset", "./card-v0")
