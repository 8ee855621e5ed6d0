"""The command line: parse, one call, print. The config dataclasses of the studies are the options."""

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated, Any, NoReturn

import tyro
from rich.console import Console

from multistep.bench.agents import AgentsBenchConfig, run_agents_bench
from multistep.bench.cartpole import CartpoleBenchConfig, run_cartpole_bench
from multistep.bench.files import FilesBenchConfig, run_files_bench
from multistep.bench.search import SearchBenchConfig, run_search_bench
from multistep.bench.sigmoid import SigmoidBenchConfig, run_sigmoid_bench
from multistep.bench.smoothing import SmoothingBenchConfig, run_smoothing_bench
from multistep.bench.sweep import SweepBenchConfig, run_sweep_bench
from multistep.bench.training import TrainingBenchConfig, run_training_bench
from multistep.errors import InputError
from multistep.losses import AbstractWeights, describe_weights, parse_weights
from multistep.runs.process import keep_compiled_programs, use_one_thread
from multistep.report.agent_figures import (
    draw_learning,
    draw_plan,
    draw_strip,
    evaluate_sentence,
    plan_sentence,
    train_sentence,
)
from multistep.report.curves import draw_r2_curves
from multistep.report.dynamic_figures import draw_dynamic, dynamic_sentence, dynamic_table
from multistep.report.linear_figures import draw_linear
from multistep.report.overview import draw_overview
from multistep.report.sigmoid_figures import draw_sigmoid
from multistep.report.static_figures import draw_static, static_sentence, static_table
from multistep.report.tables import (
    bench_table,
    datasets_table,
    demo_sentence,
    inspect_sentence,
    inspect_table,
    linear_table,
    model_sentence,
    score_table,
    select_sentence,
    select_table,
    sigmoid_sentence,
    sigmoid_table,
)
from multistep.runs.provenance import versions
from multistep.commands.collect import CollectConfig, DatasetsConfig, run_collect, run_datasets
from multistep.commands.convert import ConvertConfig, run_convert
from multistep.commands.demo import DemoConfig, run_demo
from multistep.studies.dynamic import DynamicConfig, run_dynamic
from multistep.commands.agent_evaluate import EvaluateConfig, run_evaluate
from multistep.commands.fit import FitFilesConfig, run_fit
from multistep.commands.inspect import InspectConfig, run_inspect
from multistep.studies.linear import LinearConfig, run_linear
from multistep.commands.agent_plan import PlanConfig, run_plan
from multistep.commands.score import ScoreFilesConfig, run_score
from multistep.commands.select import SelectConfig, run_select
from multistep.studies.sigmoid import SigmoidConfig, run_sigmoid
from multistep.studies.static import StaticConfig, run_static
from multistep.commands.agent_train import TrainConfig, run_train
from multistep.training import PRESETS, Preset

DESCRIPTION = "Learn dynamics models from logged, noisy trajectories and keep them right many steps ahead."
REGISTRY = tyro.constructors.ConstructorRegistry()
OUTPUT = Console(highlight=False, soft_wrap=True, markup=False)  # names and paths may hold brackets


def main(words: Sequence[str] | None = None) -> None:
    """Run one command. Bad input ends it with one sentence and exit code 2, Ctrl-C with 130."""
    words = sys.argv[1:] if words is None else words
    if list(words) == ["--version"]:
        OUTPUT.print(f"multistep {versions()['multistep']}")
        return
    warnings.showwarning = _show_as_note
    keep_compiled_programs()
    use_one_thread()
    try:
        _app(words).cli(prog="multistep", description=DESCRIPTION, args=words, registry=REGISTRY)
    except InputError as error:
        _stop(str(error), 2)
    except (
        BrokenPipeError
    ):  # who reads has seen enough, `head` say; nor is what is left to be written at the exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt:
        _stop("Interrupted: the same command goes on from the last checkpoint, if there is one.", 130)


def _app(words: Sequence[str]) -> tyro.extras.SubcommandApp:
    app, agent, bench, reproduce = (tyro.extras.SubcommandApp() for _ in range(4))
    app.command(name="demo")(_demo)
    app.command(name="fit")(_fit_command(_preset(words)))
    app.command(name="score")(_score)
    app.command(name="select")(_select)
    app.command(name="inspect")(_inspect)
    app.command(name="convert")(_convert)
    app.command(name="collect")(_collect)
    app.command(name="datasets")(_datasets)
    agent.command(name="train")(_agent_train)
    agent.command(name="plan")(_agent_plan)
    agent.command(name="evaluate")(_agent_evaluate)
    app.command(agent, name="agent", help="Train an agent in a learned model, plan with it, act with it.")
    bench.command(name="training")(_bench_training)
    bench.command(name="cartpole")(_bench_cartpole)
    bench.command(name="files")(_bench_files)
    bench.command(name="sigmoid")(_bench_sigmoid)
    bench.command(name="sweep")(_bench_sweep)
    bench.command(name="search")(_bench_search)
    bench.command(name="agents")(_bench_agents)
    bench.command(name="smoothing")(_bench_smoothing)
    app.command(bench, name="bench", help="Measure speed, memory and quality on this machine.")
    reproduce.command(name="linear")(_linear)
    reproduce.command(name="sigmoid")(_sigmoid)
    reproduce.command(name="static")(_static)
    reproduce.command(name="dynamic")(_dynamic)
    app.command(reproduce, name="reproduce", help="Run a study of the paper and draw its figures.")
    return app


def _demo(config: Annotated[DemoConfig, tyro.conf.arg(name="")] = DemoConfig()) -> None:  # noqa: B008 - frozen
    """Fit one-step and multi-step models to noisy Cartpole episodes and score both beside the true
    simulator."""
    summary = run_demo(config)
    OUTPUT.print(demo_sentence(summary))
    OUTPUT.print(score_table(config.out))
    OUTPUT.print(
        f"R2 at every horizon is drawn in {draw_r2_curves(config.out)}; models, rows and summary are beside "
        "it."
    )


def _fit_command(preset: Preset) -> Callable[..., None]:
    default = FitFilesConfig(files=(), preset=preset, training=PRESETS[preset], smooth=preset == "default")

    def fit(config: Annotated[FitFilesConfig, tyro.conf.arg(name="")] = default) -> None:
        """Fit a model to episodes in files and score it on held-out episodes."""
        summary = run_fit(config)
        OUTPUT.print(model_sentence(summary))
        OUTPUT.print(score_table(config.out))
        OUTPUT.print(
            f"The model is {config.out / 'model.safetensors'}; R2 at every horizon is drawn in "
            f"{draw_r2_curves(config.out)}."
        )

    return fit


def _select(config: Annotated[SelectConfig, tyro.conf.arg(name="")]) -> None:
    """Choose horizon and weights by cross-validation on files with episodes, then fit to all of them."""
    OUTPUT.print(select_sentence(run_select(config)))
    OUTPUT.print(select_table(config.out))
    OUTPUT.print(f"The model, fitted to all episodes, is {config.out / 'model.safetensors'}.")


def _score(config: Annotated[ScoreFilesConfig, tyro.conf.arg(name="")]) -> None:
    """Score a saved model on episodes in files."""
    summary = run_score(config)
    OUTPUT.print(model_sentence(summary))
    OUTPUT.print(score_table(config.out))
    OUTPUT.print(f"R2 at every horizon is drawn in {draw_r2_curves(config.out)}.")


def _inspect(config: Annotated[InspectConfig, tyro.conf.arg(name="")]) -> None:
    """Say what is in files with episodes: lengths, ranges, noise, gaps, and what is odd."""
    OUTPUT.print(inspect_sentence(run_inspect(config)))
    OUTPUT.print(inspect_table(config.out))
    OUTPUT.print(
        "Noise is an upper estimate in per cent of the range: what neither fourth differences nor a linear "
        "prediction from "
        "the moments before and after explain. Returns, ranges and trajectories are drawn in "
        f"{draw_overview(config.out)}."
    )


def _convert(config: Annotated[ConvertConfig, tyro.conf.arg(name="")]) -> None:
    """Write episodes in another format, with noise if asked."""
    summary = run_convert(config)
    OUTPUT.print(f"{summary['episodes']} episodes, {summary['steps']} steps, are in {summary['out']}.")


def _collect(config: Annotated[CollectConfig, tyro.conf.arg(name="")]) -> None:
    """Make a dataset of the paper and keep it in the cache."""
    summary = run_collect(config)
    how = (
        "was there already"
        if summary["was_present"]
        else f"was collected in {summary['seconds']:.0f} seconds"
    )
    OUTPUT.print(f"{summary['name']} {how}: {summary['path']}")
    OUTPUT.print(datasets_table([summary]))


def _datasets(config: Annotated[DatasetsConfig, tyro.conf.arg(name="")] = DatasetsConfig()) -> None:  # noqa: B008
    """List the datasets of the paper: which are collected, their sizes and returns."""
    OUTPUT.print(datasets_table(run_datasets(config)))


def _agent_train(config: Annotated[TrainConfig, tyro.conf.arg(name="")]) -> None:
    """Train SAC in a learned model, on a task's reward or on your own."""
    OUTPUT.print(train_sentence(run_train(config)))
    OUTPUT.print(f"Returns along the training are drawn in {draw_learning(config.out)}.")


def _agent_plan(config: Annotated[PlanConfig, tyro.conf.arg(name="")]) -> None:
    """Plan in a learned model, step by step, from a state."""
    OUTPUT.print(plan_sentence(run_plan(config)))
    OUTPUT.print(f"States, actions and rewards are drawn in {draw_plan(config.out)}; rows are beside it.")


def _agent_evaluate(config: Annotated[EvaluateConfig, tyro.conf.arg(name="")]) -> None:
    """Act in the real environment of a task with a planner in the learned model; returns with 95 %
    intervals."""
    OUTPUT.print(evaluate_sentence(run_evaluate(config)))
    try:
        OUTPUT.print(
            f"Frames of the first episode are in {draw_strip(config.out)}; one row per episode is beside "
            "them."
        )
    except InputError as error:
        OUTPUT.print(str(error))


def _linear(config: Annotated[LinearConfig, tyro.conf.arg(name="")] = LinearConfig()) -> None:  # noqa: B008
    """The one-parameter linear system: loss, minimisers, bias and variance in closed form, beyond two steps
    too."""
    run_linear(config)
    OUTPUT.print(linear_table(config.out))
    OUTPUT.print(f"Figures, from the rows beside them: {', '.join(map(str, draw_linear(config.out)))}.")


def _sigmoid(config: Annotated[SigmoidConfig, tyro.conf.arg(name="")] = SigmoidConfig()) -> None:  # noqa: B008
    """The two-parameter network: loss landscapes, and up to 9,000 trainings as one program."""
    OUTPUT.print(sigmoid_sentence(run_sigmoid(config)))
    OUTPUT.print(sigmoid_table(config.out))
    OUTPUT.print(f"Figures, from the rows beside them: {', '.join(map(str, draw_sigmoid(config.out)))}.")


def _static(config: Annotated[StaticConfig, tyro.conf.arg(name="")] = StaticConfig()) -> None:  # noqa: B008
    """R2bar by dataset, noise, horizon and beta beside the paper's table; any part of it, on all cores or on
    a cluster."""
    OUTPUT.print(static_sentence(run_static(config)))
    OUTPUT.print(static_table(config.out))
    OUTPUT.print(
        f"Table and figures, from the rows beside them: {', '.join(map(str, draw_static(config.out)))}."
    )


def _dynamic(config: Annotated[DynamicConfig, tyro.conf.arg(name="")] = DynamicConfig()) -> None:  # noqa: B008
    """Returns on Cartpole of agents trained in the paper's models and in ours, with 95 % intervals."""
    OUTPUT.print(dynamic_sentence(run_dynamic(config)))
    OUTPUT.print(dynamic_table(config.out))
    OUTPUT.print(f"Returns, from the rows beside them, are drawn in {draw_dynamic(config.out)}.")


def _bench_training(
    config: Annotated[TrainingBenchConfig, tyro.conf.arg(name="")] = TrainingBenchConfig(),
) -> None:  # noqa: B008
    """Speed and memory of training and scoring, beside a bare matrix product and PyTorch."""
    run_training_bench(config)
    OUTPUT.print(bench_table(config.out))


def _bench_cartpole(
    config: Annotated[CartpoleBenchConfig, tyro.conf.arg(name="")] = CartpoleBenchConfig(),
) -> None:  # noqa: B008
    """R2bar(100) of both presets on Cartpole random data, three seeds, beside the ceiling and the paper."""
    run_cartpole_bench(config)
    OUTPUT.print(bench_table(config.out))


def _bench_files(config: Annotated[FilesBenchConfig, tyro.conf.arg(name="")] = FilesBenchConfig()) -> None:  # noqa: B008
    """Loading beside the libraries' own plain reads, memory of large files, time to collect."""
    run_files_bench(config)
    OUTPUT.print(bench_table(config.out))


def _bench_sigmoid(
    config: Annotated[SigmoidBenchConfig, tyro.conf.arg(name="")] = SigmoidBenchConfig(),
) -> None:  # noqa: B008
    """The 9,000 trainings of the two-parameter network as one program, beside a PyTorch loop."""
    run_sigmoid_bench(config)
    OUTPUT.print(bench_table(config.out))


def _bench_sweep(config: Annotated[SweepBenchConfig, tyro.conf.arg(name="")] = SweepBenchConfig()) -> None:  # noqa: B008
    """Throughput of a sweep on all cores beside one worker, and what the sweep itself costs."""
    run_sweep_bench(config)
    OUTPUT.print(bench_table(config.out))


def _bench_search(config: Annotated[SearchBenchConfig, tyro.conf.arg(name="")] = SearchBenchConfig()) -> None:  # noqa: B008
    """Successive halving beside the whole grid of the static study, on Cartpole random data."""
    run_search_bench(config)
    OUTPUT.print(bench_table(config.out))


def _bench_smoothing(
    config: Annotated[SmoothingBenchConfig, tyro.conf.arg(name="")] = SmoothingBenchConfig(),  # noqa: B008 - frozen
) -> None:
    """A fit to noisy episodes beside one to the same episodes smoothed, both scored with and without the
    noise."""
    run_smoothing_bench(config)
    OUTPUT.print(bench_table(config.out))


def _bench_agents(config: Annotated[AgentsBenchConfig, tyro.conf.arg(name="")] = AgentsBenchConfig()) -> None:  # noqa: B008
    """SAC in the model, planning and the model as an environment, beside what they cannot beat."""
    run_agents_bench(config)
    OUTPUT.print(bench_table(config.out))


def _preset(words: Sequence[str]) -> Preset:
    """The preset among the words: the defaults of the other options, shown in the help, depend on it."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--preset", nargs="?", default="default")
    chosen = parser.parse_known_args(words)[0].preset
    return chosen if chosen in PRESETS else "default"  # a wrong one is refused by the real parser


def _stop(sentence: str, code: int) -> NoReturn:
    print(f"multistep: {sentence}", file=sys.stderr)
    raise SystemExit(code)


def _show_as_note(message: Warning | str, category: type[Warning], *_: Any) -> None:
    if issubclass(category, UserWarning):
        _print_note(str(message))


@cache  # once each: a second fit finds the same oddities as the first
def _print_note(message: str) -> None:
    print(f"note: {message}", file=sys.stderr)


@REGISTRY.primitive_rule
def _weights_rule(
    info: tyro.constructors.PrimitiveTypeInfo,
) -> tyro.constructors.PrimitiveConstructorSpec | None:
    """Weights are typed as one word: see `parse_weights`."""
    if info.type is not AbstractWeights:
        return None
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="WEIGHTS",
        instance_from_str=lambda words: parse_weights(words[0]),
        is_instance=lambda value: isinstance(value, AbstractWeights),
        str_from_instance=lambda weights: [describe_weights(weights)],
    )
