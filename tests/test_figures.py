"""The figures in the documents are those of the runs beside them."""

import csv
import json
import shlex
from itertools import pairwise
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
BENCH, README = (ROOT / "bench" / "README.md").read_text(), (ROOT / "README.md").read_text()


def summary(name, folder="bench"):
    return json.loads((ROOT / folder / name / "summary.json").read_text())


def test_cartpole_figures():
    entries = summary("cartpole")
    assert len(entries) == 4
    for entry in (*entries.values(), *summary("cartpole_seed_0").values()):
        ours = f"{entry['r2bar_100']:.3f} ({entry['lowest']:.3f} to {entry['highest']:.3f})"
        assert f"| {ours} | {entry['ceiling']:.3f} |" in BENCH
    for entry in entries.values():
        assert f"| {entry['ceiling']:.3f} | {entry['paper']:.3f}" in BENCH
    default = entries["default_noise_2"]
    found = f"fitted once, has {default['r2bar_100']:.3f}, the true simulator {default['ceiling']:.3f}"
    assert f"the default preset, {found}" in README


def test_training_figures():
    figures = summary("training")
    for name in ("default", "paper", "default_h1", "scoring", "gemm_eight_weights"):
        assert f"| {figures[name]['gflops']:.1f} | {figures[name]['of_gemm']:.2f} |" in BENCH
    for ratio in figures["faster_than_torch_eager"].values():
        assert f"| {ratio:.2f} times |" in BENCH
    assert f"| {figures['gemm_gflops']:.1f} | 1 |" in BENCH
    assert f"{figures['two_workers_ratio']:.2f} times the throughput" in BENCH
    assert f"{figures['memory']['h50_mb']:.0f} MB at horizon 50" in BENCH


def test_demo_figures():
    figures = summary("demo")
    row = " | ".join(f"{figures[name]['r2bar_100']:.3f}" for name in ("one_step", "multi_step", "ceiling"))
    assert f"| {row} |" in README


def test_files_figures():
    figures = summary("files")
    assert f"of the speed of `numpy.load` | {figures['npz_speed_of_plain']:.2f} |" in BENCH
    assert f"of the speed of `polars.read_parquet` | {figures['parquet_speed_of_plain']:.2f} |" in BENCH
    memory = " / ".join(f"{figures[f'{ending}_memory_of_size']:.2f}" for ending in ("npz", "parquet", "hdf5"))
    assert f"in sizes of the file | {memory} |" in BENCH
    seconds = [figures[f"{name}_episodes_seconds"] for name in ("cartpole_50", "halfcheetah_100")]
    assert f"| {seconds[0]:.1f} s / {seconds[1]:.1f} s |" in BENCH


def test_tractable_figures():
    page = (ROOT / "docs" / "tractable-cases.md").read_text()
    linear, sigmoid, bench = summary("linear", "results"), summary("sigmoid", "results"), summary("sigmoid")
    labels = {
        "bias": "bias, mean over parameters",
        "absolute_bias": "its size, mean over parameters",
        "variance": "variance",
    }
    for name, label in labels.items():
        assert (
            f"| {label} | {' | '.join(f'{row[name]:.4f}' for row in linear['at_largest_noise'].values())} |"
            in page
        )
    one, averaging = linear["two_steps_over_one_step"], linear["two_steps_over_averaging"]
    below, above = averaging["below_half"], averaging["above_half"]
    text = " ".join(page.split())
    assert (
        f"a ratio of {one['simulated']:.2f} at noise 0.1, mean over the parameters; {one['first_order']:.2f} "
        "to first" in text
    )
    assert (
        f"{below['simulated']:.2f} times that of averaging for parameters below 1/2 and "
        f"{above['simulated']:.2f}" in text
    )
    assert f"({below['first_order']:.2f} and {above['first_order']:.2f} to first order)" in text
    for noise in (0.2, 0.4, 0.6):
        distances = sigmoid["minima_distance"][f"noise {noise}"].values()
        assert (
            f"| {noise:.0%} | {' | '.join(f'{distance:.2f}' for distance in distances)} |".replace("%", " %")
            in page
        )
    assert f"{sigmoid['minima_at_edge']} of 120 minima are at the edge" in text
    assert (
        f"takes {bench['program_seconds']:.1f} seconds on one core, {bench['faster_than_torch']:.0f} times"
        in page
    )
    assert bench["largest_difference"] < 1e-5
    each, ratio = bench["torch_seconds_each"], bench["faster_than_torch"]
    assert (
        f"{bench['program_seconds']:.1f} s in all against {each:.2f} s each, {ratio:.0f} times the speed"
        in BENCH
    )
    with open(ROOT / "results" / "sigmoid" / "alphas.csv") as file:
        rows = {(row["measure"], float(row["alpha"])): row for row in csv.DictReader(file)}
    for alpha in (0, 0.25, 0.5, 0.75, 1):
        values = " | ".join(
            f"{float(rows[measure, alpha]['value']):.4f}" for measure in ("one_step", "two_step", "mean")
        )
        assert f"| {alpha:g} | {values} |" in page
    best = {seed: summary(f"sigmoid_seed_{seed}", "results")["best_alpha"] for seed in (1, 2, 3)} | {
        0: sigmoid["best_alpha"]
    }
    assert [best[seed]["mean"] for seed in range(4)] == [0.75, 0.5, 0.5, 0.5]
    assert [best[seed]["one_step"] for seed in range(4)] == [0.75, 0.5, 0.5, 0.75]


def test_every_folder_of_results_has_its_command():
    """The options in the file are those in the folder's configuration."""
    lines = (ROOT / "results" / "commands.sh").read_text().splitlines()
    commands = [shlex.split(line) for line in lines if line.startswith("multistep ")]
    folders = {path.name for path in (ROOT / "results").iterdir() if path.is_dir()}
    assert {words[words.index("--out") + 1] for words in commands} == {f"results/{name}" for name in folders}
    for words in commands:
        found = json.loads((ROOT / words[words.index("--out") + 1] / "config.json").read_text())
        options = {name.removeprefix("--"): value for name, value in pairwise(words) if name.startswith("--")}
        assert found["command"] == " ".join(words[1:3] if words[1] == "reproduce" else words[1:2])
        assert found["config"].get("seed", 0) == int(options.get("seed", 0))
        assert found["config"].get("scale") == options.get("scale")
        if words[1] == "select":
            assert found["config"]["files"] == [words[2]]
            assert found["config"]["noise"] == ([float(options["noise"])] if "noise" in options else [])
            assert set(found["config"]["vary"]) <= set(words)


def test_sweep_figures():
    figures, page = summary("sweep"), (ROOT / "docs" / "selection.md").read_text()
    assert figures["workers"] == 2
    assert f"{figures['throughput_over_one_worker']:.2f} times the throughput of one" in page
    assert f"costs {100 * figures['overhead_of_fit_time']:.1f} % of the time" in page


def test_search_figures():
    page = (ROOT / "docs" / "selection.md").read_text()
    rows = results_rows("search", "bench")
    for row in rows:
        found = [
            f"{float(row[f'{name}_mean']):.3f} ± {float(row[f'{name}_deviation']):.3f}, horizon "
            f"{row[f'{name}_horizon']}, beta {row[f'{name}_weights'].removeprefix('exponential:')}"
            for name in ("grid", "halving")
        ]
        share = f"{float(row['below_winner']):.2f} | {float(row['cost_of_grid']):.2f}"
        assert f"| {100 * float(row['noise']):g} % | {found[0]} | {found[1]} | {share} |" in page
        assert float(row["below_winner"]) <= 0.5
        assert float(row["cost_of_grid"]) <= 1 / 3
        assert row["candidates"] == "41"
    assert [float(row["noise"]) for row in rows] == [0.0, 0.01, 0.02]
    costs = sorted(100 * float(row["cost_of_grid"]) for row in rows)
    assert f"with {costs[0]:.0f} to {costs[-1]:.0f} % of its training" in BENCH
    short = sum(row["seconds"] for row in fits("bench/search") if row["noise"] == 0.01)
    grid = [
        row
        for row in fits("results/static")
        if row["noise"] == 0.01 and row["dataset"] == "cartpole/random" and row["epochs"] == 30
    ]
    assert len(grid) == 123
    full = sum(row["seconds"] for row in grid if (row["horizon"], row["weights"]) == (10, "exponential:1.5"))
    assert (
        f"it was {(short + full) / sum(row['seconds'] for row in grid):.2f} of the grid's with 1 % noise"
        in page
    )


def test_smoothing_figures():
    page = (ROOT / "docs" / "smoothing.md").read_text()
    rows = results_rows("smoothing", "bench")
    assert len(rows) == 6
    for row in rows:
        scores = [
            f"{fitted}_r2bar_{what}" for what in ("noiseless", "noisy") for fitted in ("measured", "smoothed")
        ]
        found = " | ".join(f"{float(row[name]):.3f}" for name in scores)
        start = f"| {row['dataset']} | {100 * float(row['noise']):g} % "
        assert f"{start}| {found} | {float(row['noise_left']):.2f} |" in page
    least, most = (
        [100 * float(row[name]) for row in rows if row["dataset"].startswith("cartpole")]
        for name in ("noise_found_low", "noise_found_high")
    )
    assert f"added it finds {min(least):.0f} to {max(most):.0f} % in every state of Cartpole" in page
    assert f"up to {max(100 * float(row['noise_found_high']) for row in rows):.0f} % of it in Swimmer" in page
    for name in ("pd_failure", "energy_shaping", "ddp", "sac"):
        once, twice = (summary(f"pendulum_{name}_{how}", "results") for how in ("once", "twice"))
        again = f"{twice['model']['r2bar_100']:.3f}{'' if twice['fitted_again'] else ' (not fitted again)'}"
        noise = ", ".join(f"{value:.2g}" for value in twice["measurement_noise"].values())
        assert f"| `{name}` | {once['model']['r2bar_100']:.3f} | {again} | {noise} |" in page


def fits(folder):
    rows = [json.loads(line) for line in (ROOT / folder / "fits.jsonl").read_text().splitlines()]
    return [row for row in rows if row["kind"] == "fit"]


def results_rows(name, folder="results"):
    with open(ROOT / folder / name / "rows.csv") as file:
        return list(csv.DictReader(file))


def thousandths(row):
    return f"{1000 * float(row['mean']):.0f} ± {1000 * float(row['deviation']):.0f}"


def test_static_figures():
    page = (ROOT / "docs" / "reproduction.md").read_text()
    with open(ROOT / "results" / "static" / "rows.csv") as file:
        cells = [row for row in csv.DictReader(file) if (row["preset"], row["horizon"]) == ("paper", "1")]
    assert len(cells) == 9
    for name in {cell["dataset"] for cell in cells}:
        own = sorted(
            (cell for cell in cells if cell["dataset"] == name), key=lambda cell: float(cell["noise"])
        )
        ours, paper = (
            " | ".join(f"{1000 * float(cell[mean]):.0f} ± {1000 * float(cell[spread]):.0f}" for cell in own)
            for mean, spread in (("mean", "deviation"), ("paper", "paper_deviation"))
        )
        assert f"| {name} | {ours} |\n| the paper | {paper} |" in page
    by_epochs = {}
    for noise in range(3):
        for row in results_rows(f"training_length_{noise}"):
            by_epochs.setdefault(json.loads(row["settings"])["epochs"], []).append(thousandths(row))
    for epochs, scores in by_epochs.items():
        assert f"| {epochs} epochs | {' | '.join(scores)} |" in page
    assert f"| our episodes | {' | '.join(by_epochs[30][1:])} |" in page
    for seed in (1, 2):
        others = [
            thousandths(row)
            for noise in (1, 2)
            for row in results_rows(f"other_episodes_{seed}_noise_{noise}")
        ]
        assert f"| seed {seed} | {' | '.join(others)} |" in page
    networks = {}
    for row in results_rows("swimmer_variations"):
        network = json.loads(row["settings"])["network"]
        networks[network["dropout"], network["batch_norm"], network["activation"]] = thousandths(row)
    text = " ".join(page.split())
    assert f"with dropout and batch norm, as in the paper, {networks[0.1, True, 'relu']}; " in text
    assert (
        f"without dropout {networks[0.0, True, 'relu']}; without either {networks[0.0, False, 'relu']}, and "
        in text
    )
    assert f"{networks[0.0, False, 'tanh']} with tanh" in text
    longer, _ = (thousandths(row) for row in results_rows("swimmer_training_length"))  # the best first
    ours, others, swimmer = (
        thousandths(*results_rows(name))
        for name in ("halfcheetah_folds", "other_episodes_halfcheetah", "other_episodes_swimmer")
    )
    assert f"[ours](../results/halfcheetah_folds) have {ours} and [another 100]" in text
    assert f"(../results/other_episodes_halfcheetah) {others}." in text
    assert f"100 epochs in place of 30 give {longer}; nor do " in text
    assert f"[other episodes](../results/other_episodes_swimmer): {swimmer}." in text
    found = summary("static", "results")
    assert len(found["one_step_as_in_paper"]) == 2
    assert (
        "**Missing** at this scale: the other multi-step cells and betas of Swimmer and HalfCheetah random, "
        "and the other five" in text
    )
    assert len(found["datasets_without_rows"]) == 5


def test_figures_of_the_multi_step_cells():
    page = (ROOT / "docs" / "reproduction.md").read_text()
    with open(ROOT / "results" / "static" / "rows.csv") as file:
        every = [row for row in csv.DictReader(file) if row["dataset"] == "cartpole/random"]
    cells = [row for row in every if row["preset"] == "paper"]

    def cell(row, of, spread, beta):
        chosen = "" if row["horizon"] == "1" else f" [{float(row[beta].removeprefix('exponential:')):g}]"
        return f"{1000 * float(row[of]):.0f} ± {1000 * float(row[spread]):.0f}{chosen}"

    def gains(rows, of):
        values = [float(row[of]) for row in sorted(rows, key=lambda row: int(row["horizon"]))]
        return [f"{1000 * value - 1000 * values[0]:.0f}" for value in values[1:]]

    for noise in ("0.0", "0.01", "0.02"):
        noisy = sorted((row for row in cells if row["noise"] == noise), key=lambda row: int(row["horizon"]))
        (default,) = (row for row in every if (row["preset"], row["noise"]) == ("default", noise))
        ours = " | ".join(
            [*(cell(row, "mean", "deviation", "weights") for row in noisy), thousandths(default)]
        )
        paper = " | ".join(cell(row, "paper", "paper_deviation", "paper_beta") for row in noisy)
        label = f"{100 * float(noise):g} %"
        assert f"| {label} | ours | {ours} | {1000 * float(noisy[0]['ceiling']):.0f} |\n" in page
        assert f"| {label} | the paper | {paper} | | |\n" in page
        there, here = ("{}, {}, {} and {}".format(*gains(noisy, of)) for of in ("paper", "mean"))
        assert f"{there} points there, {here} here" in page
        assert all(row["betas"] == row["betas_in_all"] for row in noisy)
    assert summary("static", "results")["gain_significant_in_paper_only"] == []
    assert summary("static", "results")["gain_significant_in_both"] == [
        "cartpole/random, noise 0.01, h=3",
        "cartpole/random, noise 0.01, h=10",
        "cartpole/random, noise 0.02, h=10",
    ]
    changes = {"0.01": 0.0, "0.02": 0.0}
    with open(ROOT / "results" / "static" / "candidates.csv") as file:
        large = [
            row for row in csv.DictReader(file) if row["preset"] == "paper" and float(row["beta"] or 0) >= 2
        ]
    for noise in changes:
        for horizon in ("2", "3", "4", "10"):
            scores = [
                float(row["mean"]) for row in large if (row["noise"], row["horizon"]) == (noise, horizon)
            ]
            assert len(scores) == 4
            changes[noise] = max(changes[noise], max(scores) - min(scores))
    assert (
        "at most\n{:.0f} points with 1 % noise and {:.0f} with 2 %".format(
            *(1000 * c for c in changes.values())
        )
        in page
    )
    growing = [
        f"{float(row['beta']):g}"
        for row in sorted(cells, key=lambda row: row["noise"])
        if row["horizon"] == "10"
    ]
    assert "the best beta grows with the noise, {}, {} and {};".format(*growing) in page


def test_figures_of_the_gains_that_the_paper_highlights():
    page = (ROOT / "docs" / "reproduction.md").read_text()
    rows = [
        row
        for row in results_rows("static")
        if row["preset"] == "paper" and row["dataset"] != "cartpole/random"
    ]
    one_step = {(row["dataset"], row["noise"]): row for row in rows if row["horizon"] == "1"}
    cells = [row for row in rows if row["horizon"] != "1"]
    assert all(row["highlighted"] == "true" for row in cells)
    assert sum(row["dataset"] == "swimmer/random" for row in cells) == 5
    assert {row["dataset"] for row in cells if float(row["gain_all_low"]) > 0} == {"swimmer/random"}
    assert sum(float(row["gain_all_low"]) > 0 for row in cells) == 3
    for row in cells:
        name = f"| {row['dataset']} | {100 * float(row['noise']):g} % | {row['horizon']} "
        ours = f"| {thousandths(row)} [{float(row['beta']):g}] | {row['betas']} of {row['betas_in_all']} "
        gain, low, high = (
            f"{1000 * float(row[key]):.0f}" for key in ("gain_all", "gain_all_low", "gain_all_high")
        )
        paper = float(row["paper"]) - float(one_step[row["dataset"], row["noise"]]["paper"])
        assert f"{name}{ours}| {gain} ({low} to {high}) | {1000 * paper:.0f} |" in page


def test_figures_of_the_quick_static_study():
    page = (ROOT / "docs" / "reproduction.md").read_text()
    rows = {(row["dataset"], row["noise"], row["horizon"]): row for row in results_rows("static_quick")}
    noisy = [row for (_, noise, horizon), row in rows.items() if float(noise) > 0 and horizon == "10"]
    significant = sum(float(row["gain_all_low"]) > 0 for row in noisy)
    positive = sum(float(row["gain_all"]) > 0 for row in noisy)
    assert (
        f"At horizon 10 the gain is significant in {significant} of {len(noisy)} noisy cells, and above 0 in "
        f"{positive}." in page
    )

    def from_to(dataset, of):
        return " to ".join(
            f"{1000 * float(rows[dataset, '0.02', horizon][of]):.0f}" for horizon in ("1", "10")
        )

    mixed, full = (
        [from_to(f"cartpole/{name}", of) for of in ("mean", "paper")]
        for name in ("mixed_replay", "full_replay")
    )
    text = " ".join(page.split())
    assert (
        f"from {mixed[0]} on `mixed_replay` (the paper: {mixed[1]}) and from {full[0]} on `full_replay` "
        f"({full[1]})" in text
    )
    medium = rows["halfcheetah/medium", "0.0", "1"]
    paper = f"{1000 * float(medium['paper']):.0f} ± {1000 * float(medium['paper_deviation']):.0f}"
    assert f"{thousandths(medium)} against {paper} for one step without noise" in page
    assert f"On HalfCheetah medium it has {1000 * float(medium['ceiling']):.0f} without noise" in page
    mixed = rows["swimmer/mixed_replay", "0.0", "1"]
    paper = f"{1000 * float(mixed['paper']):.0f} ± {1000 * float(mixed['paper_deviation']):.0f}"
    assert f"{thousandths(mixed)} against {paper} for one step without noise" in page
    found = summary("static_quick", "results")
    both, lost = found["gain_significant_in_both"], found["gain_significant_in_paper_only"]
    counted = (
        f"Of the {len(both) + len(lost)} noisy cells with a gain that the paper highlights {len(both)} are "
        "significant here"
    )
    swimmer = sum(name.startswith("swimmer/random") for name in lost)
    assert f"{counted}; of the {len(lost)} others {swimmer} are on Swimmer random" in text
    assert found["datasets_without_rows"] == []


def test_agents_figures():
    page, figures = (ROOT / "docs" / "agents.md").read_text(), summary("agents")
    for name, label in {
        "sac_of_floor": "bare compiled SAC update",
        "sac_over_sb3": "on the same environment",
        "mpc_over_gemm_time": "its matrix products alone take",
        "model_env_of_gemm": "rate of a bare matrix product",
    }.items():
        low, high = figures[f"{name}_range"]
        assert f"{label} | {figures[name]:.2f} ({low:.2f} to {high:.2f}) |" in page


def test_figures_of_the_datasets():
    page = (ROOT / "datasets" / "README.md").read_text()
    for path in (ROOT / "datasets").glob("*/*.json"):
        about = json.loads(path.read_text())
        with np.load(path.with_suffix(".npz")) as arrays:
            returns = arrays["rewards"].reshape(about["num_episodes"], -1).sum(axis=1)
        name = f"{path.parent.name}/{path.stem}"
        spread = f"{about['return_mean']:.1f} ± {about['return_deviation']:.1f}"
        if about["recipe"]["kind"] == "RandomPolicy":
            assert f"| `{name}` | {spread} | - |" in page
            continue
        planned = returns[about["recipe"]["num_random"] :]
        assert f"| `{name}` | {spread} | {planned.min():.0f} to {planned.max():.0f} |" in page
        if name == "swimmer/mixed_replay":
            assert (
                f"up and down, {planned.mean():.0f} on average over {len(planned)} episodes, three of them"
                in page
            )
            assert ((planned < 0) | (planned > 50)).sum() == 3


def test_dynamic_figures():
    page = (ROOT / "docs" / "dynamic.md").read_text()
    rows = results_rows("dynamic_quick")
    assert (
        len(rows) == 12 + 13
    )  # one-step, four by R2, four uniform, one by return, ours once and twice, and filtered
    for row in rows:
        low, mean, high = (f"{float(row[f'return_{name}']):.0f}" for name in ("low", "mean", "high"))
        beta = f", {row['weights'].removeprefix('exponential:')}" if row["variant"].startswith("beta") else ""
        model = f"{row['variant']}{beta} | {row['horizon']} | {float(row['r2bar_50']):.3f}"
        assert f"| {100 * float(row['noise']):g} % | {model} | {mean} ({low} to {high}) |" in page
    by_name = {(row["variant"], float(row["noise"])): f"{float(row['return_mean']):.0f}" for row in rows}
    assert f"without noise: {by_name['one-step', 0]} here" in page
    several = [
        float(row["return_mean"])
        for row in rows
        if float(row["noise"]) and row["horizon"] in ("2", "3", "4", "10")
    ]
    ends = f"the multi-step ones to between {min(several):.0f} and {max(several):.0f}"
    assert f"falls to {by_name['one-step', 0.01]} and {ends}, most of them above" in page
    assert f"reaches the default model's {by_name['default', 0]}" in page
    once, twice, filtered = (
        by_name[name, 0.01] for name in ("default, fitted once", "default", "default, filtered")
    )
    assert by_name["default", 0] == by_name["default, fitted once", 0]
    assert f"Fitted once, ours falls too, from {by_name['default', 0]} to {once}" in page
    assert f"gives most of it back: {twice}," in page
    lost = round(float(by_name["default", 0]) - float(filtered))
    assert f"state has {filtered}, and loses\n  {lost} points to the noise" in page
    best = [by_name[variant, noise] for noise in (0, 0.01) for variant in ("default", "one-step")]
    assert (
        f"a return of {best[0]} in the default model and {best[1]} in the one-step one, and {best[2]}\nand "
        f"{best[3]}" in README
    )
    assert f"states it has {filtered} with that noise" in README
    assert summary("dynamic_quick", "results")["complete"]


def test_judge_figures():
    right, page = summary("judge")["right"], (ROOT / "docs" / "automatic.md").read_text()
    assert f"Of the {summary('judge')['pairs_that_differ_by_more_than_0.01']} pairs" in page
    for judge, label in {
        "raw": "R2bar from the measured states",
        "filtered": "from the belief of each model's own observer",
        "shared_noise": "from beliefs, with the measurement noise of one observer for all",
        "likelihood": "likelihood of the innovations",
        "better": "the better of the first and the third, as `fit` judges",
    }.items():
        assert f"| {label} | {100 * right[judge]:.1f} % |" in page


def three_digits(value):
    return f"{float(value):.3g}" if float(value) < 1000 else f"{float(value):.0f}"


def test_benchmark_figures():
    page = (ROOT / "docs" / "plants.md").read_text()
    with (ROOT / "results" / "benchmarks" / "rows.csv").open() as file:
        rows = list(csv.DictReader(file))
    for test in dict.fromkeys((row["benchmark"], row["test"], row["unit"]) for row in rows):
        own = {row["model"]: row for row in rows if (row["benchmark"], row["test"], row["unit"]) == test}
        cells = [
            three_digits(own[name]["rmse"])
            for name in ("line", "state_space", "narx_one_step", "narx_rollout")
        ]
        ours = own["automatic"]
        spread = f"({three_digits(ours['lowest'])} to {three_digits(ours['highest'])})"
        label = f"{test[0]}, {test[1]}, {test[2]}".replace("_", " ")
        assert f"| {label} | {' | '.join(cells)} | **{three_digits(ours['rmse'])}** {spread} |" in page


def test_quality_figures():
    found = summary("quality")
    steps = found["model_steps_of_once"] / 1e6
    assert f"one fit of {steps:.1f} million model\nsteps (`--recipe once`) {found['once']:.3f}" in BENCH
    assert f"1 million {found['automatic 1M']:.3f}, with 2 million {found['automatic 2M']:.3f}" in BENCH
    assert f"takes {100 * found['share_of_once']:.0f} % of the model steps" in BENCH


def test_identification_figures():
    found = summary("identification")["cascaded_tanks"]
    for name in ("jax-sysid", "multistep"):
        test, seconds = found[name]["test V"], found[name]["cpu_seconds"]
        spread = f"({test['lowest']:.3f} to {test['highest']:.3f})"
        assert f"{test['mean']:.3f} V {spread} in {seconds:.2g} s" in BENCH
    assert f"a line {found['linear']['test V']['mean']:.3f} V" in BENCH
