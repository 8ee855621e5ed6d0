"""Imports point one way: what a module may import is everything in the layers before its own."""

import ast
from pathlib import Path

import multistep

LAYERS = [
    {"errors", "types"},
    {"registry"},
    {"runs"},
    {"data"},
    {"dynamics"},
    {"losses"},
    {"training", "evaluation"},
    {"selection", "tasks"},
    {"agents", "estimator"},
    {"studies", "commands"},
    {"bench"},
    {"report"},
    {"options"},
    {"cli"},
    {"__main__"},
]
SOURCE = Path(multistep.__file__).parent
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
# Only these may be heavy or optional: everything else must import with the base installation, quickly.
OWNERS = {
    "matplotlib": {"report"},
    "tyro": {"bench", "cli", "commands", "options", "studies"},
    "torch": {"bench"},
    "sbx": {"agents"},
    "stable_baselines3": {"agents", "bench"},
    "gymnasium": {"agents", "data", "tasks"},
    "minari": {"data"},
    "h5py": {"data"},
    "mujoco": {"tasks"},
    "dm_control": {"tasks"},
    "dask": {"runs"},
    "distributed": {"runs", "selection"},
    "optuna": {"selection"},
    "filelock": {"runs"},
    "sklearn": {"estimator"},
    "onnx": {"dynamics"},
    "onnxruntime": {"bench", "commands"},
}


def layer_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> set[str]:
    """Full names of the modules that the file imports, wherever in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write imports in full"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def wrong_arrows(files: dict[Path, set[str]]) -> list[str]:
    wrong = []
    for path, names in files.items():
        mine = layer_of(path)
        for name in names:
            parts = name.split(".")
            if parts[0] == "multistep" and parts[1] != mine and RANK[parts[1]] >= RANK[mine]:
                wrong.append(f"{path.relative_to(SOURCE)} imports {name}")
            if parts[0] in OWNERS and mine not in OWNERS[parts[0]]:
                wrong.append(f"{path.relative_to(SOURCE)} imports {name}")
    return wrong


def test_every_import_points_to_an_earlier_layer():
    files = {
        path: imports_of(path) for path in SOURCE.rglob("*.py") if path.parent != SOURCE or path.stem in RANK
    }
    assert len(files) > 20
    assert wrong_arrows(files) == []


def test_every_module_has_a_layer():
    assert {layer_of(path) for path in SOURCE.rglob("*.py")} - {"__init__"} <= set(RANK)


def test_an_arrow_the_wrong_way_is_found():
    assert wrong_arrows({SOURCE / "training" / "once.py": {"multistep.evaluation.score"}})
    assert wrong_arrows({SOURCE / "data" / "noise.py": {"multistep.losses"}})
    assert wrong_arrows({SOURCE / "data" / "noise.py": {"torch.nn"}})


def test_tests_mirror_the_source():
    """Each folder of tests is named after a folder of the source."""
    folders = {
        path.name
        for path in Path(__file__).parent.iterdir()
        if path.is_dir() and not path.name.startswith("_")
    }
    assert folders <= {path.name for path in SOURCE.iterdir()}
