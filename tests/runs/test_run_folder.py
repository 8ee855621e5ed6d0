import json
from dataclasses import dataclass

import pytest

from multistep.errors import InputError
from multistep.runs.run_folder import check_run, check_study, open_run, write_run


@dataclass(frozen=True)
class Config:
    scale: str = "smoke"
    noise: tuple[float, ...] = (0.0, 0.01)


def test_a_folder_belongs_to_one_command(tmp_path):
    check_run(tmp_path, "fit")  # nobody's yet
    open_run(tmp_path, "fit", Config())
    check_run(tmp_path, "fit")
    with pytest.raises(InputError, match="holds what 'multistep fit' has left: choose another --out"):
        check_run(tmp_path, "score")
    with pytest.raises(InputError, match="holds what 'multistep fit' has left"):
        open_run(tmp_path, "score", Config())


def test_the_configuration_is_that_of_the_results_beside_it(tmp_path):
    write_run(tmp_path, "fit", Config("smoke"), [], {})
    open_run(tmp_path, "fit", Config("quick"))
    assert json.loads((tmp_path / "config.json").read_text())["config"]["scale"] == "smoke"
    write_run(tmp_path, "fit", Config("quick"), [], {})
    assert json.loads((tmp_path / "config.json").read_text())["config"]["scale"] == "quick"


def test_a_study_with_other_settings_is_refused(tmp_path):
    open_run(tmp_path, "reproduce dynamic", Config())
    check_study(tmp_path, "reproduce dynamic", scale="smoke", noise=(0.0, 0.01))
    for other in ({"scale": "quick", "noise": (0.0, 0.01)}, {"scale": "smoke", "noise": (0.02,)}):
        with pytest.raises(InputError, match="or this one with another scale or noise: choose another --out"):
            check_study(tmp_path, "reproduce dynamic", **other)
    with pytest.raises(InputError, match="holds another run"):
        check_study(tmp_path, "reproduce static", scale="smoke")


@pytest.mark.parametrize(
    "text", ["", "[]", '{"a": 1}', '{"command": "fit", "config": 3}', '{"command": "fit']
)
def test_a_configuration_that_is_not_ours_gets_a_sentence(text, tmp_path):
    (tmp_path / "config.json").write_text(text)
    for check in (check_run, check_study):
        with pytest.raises(
            InputError,
            match=r"config\.json was not written by multistep, or is damaged: choose another --out",
        ):
            check(tmp_path, "fit")


def test_a_folder_that_cannot_be_made_is_refused_before(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    for check in (check_run, check_study):
        with pytest.raises(InputError, match="file is a file, so there can be no folder"):
            check(tmp_path / "file" / "runs" / "fit", "fit")
        check(tmp_path / "new" / "fit", "fit")
    assert not (tmp_path / "new").exists()
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write to everything
    with pytest.raises(InputError, match="cannot be written to: choose another --out"):
        check_study(tmp_path / "new", "fit")
