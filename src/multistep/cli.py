"""The command line: a table of commands; parse, one call, print. The configurations are the options.

Only the command that was typed is imported.
"""

import argparse
import errno
import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from functools import cache
from importlib import import_module
from importlib.metadata import version
from typing import Any, NamedTuple, NoReturn

from multistep.errors import InputError

DESCRIPTION = "Learn dynamics models from logged, noisy trajectories and keep them right many steps ahead."


class Command(NamedTuple):
    """What a command does, in a sentence, and where its configuration, its work and its view are."""

    help: str
    module: str
    config: str
    run: str
    view: str


COMMANDS = {
    "demo": Command(
        "Fit one-step and multi-step models to noisy Cartpole episodes, beside the true simulator.",
        "commands.demo", "DemoConfig", "run_demo", "view_demo",
    ),
    "fit": Command(
        "Fit a model to episodes in files and score it on held-out episodes.",
        "commands.fit", "FitFilesConfig", "run_fit", "view_fit",
    ),
    "score": Command(
        "Score a saved model on episodes in files.",
        "commands.score", "ScoreFilesConfig", "run_score", "view_score",
    ),
    "select": Command(
        "Choose horizon and weights by cross-validation on files with episodes, then fit to all of them.",
        "commands.select", "SelectConfig", "run_select", "view_select",
    ),
    "inspect": Command(
        "Say what is in files with episodes: lengths, ranges, noise, gaps, and what is odd.",
        "commands.inspect", "InspectConfig", "run_inspect", "view_inspect",
    ),
    "convert": Command(
        "Write episodes in another format, with noise if asked.",
        "commands.convert", "ConvertConfig", "run_convert", "view_convert",
    ),
    "export": Command(
        "Write a saved model as one file for use without multistep: ONNX, NumPy, C or CasADi.",
        "commands.export", "ExportConfig", "run_export", "view_export",
    ),
    "collect": Command(
        "Make a dataset of the paper and keep it in the cache.",
        "commands.collect", "CollectConfig", "run_collect", "view_collect",
    ),
    "datasets": Command(
        "List the datasets of the paper: which are collected, their sizes and returns.",
        "commands.collect", "DatasetsConfig", "run_datasets", "view_datasets",
    ),
    "agent train": Command(
        "Train SAC in a learned model, on a task's reward or on your own.",
        "commands.agent_train", "TrainConfig", "run_train", "view_agent_train",
    ),
    "agent plan": Command(
        "Plan in a learned model, step by step, from a state.",
        "commands.agent_plan", "PlanConfig", "run_plan", "view_agent_plan",
    ),
    "agent evaluate": Command(
        "Act in the real environment of a task with a planner in the learned model; returns with 95 % "
        "intervals.",
        "commands.agent_evaluate", "EvaluateConfig", "run_evaluate", "view_agent_evaluate",
    ),
    "reproduce linear": Command(
        "The one-parameter linear system: loss, minimisers, bias and variance in closed form.",
        "studies.linear", "LinearConfig", "run_linear", "view_linear",
    ),
    "reproduce sigmoid": Command(
        "The two-parameter network: loss landscapes, and up to 9,000 trainings as one program.",
        "studies.sigmoid", "SigmoidConfig", "run_sigmoid", "view_sigmoid",
    ),
    "reproduce static": Command(
        "R2bar by dataset, noise, horizon and beta beside the paper's table; any part of it.",
        "studies.static", "StaticConfig", "run_static", "view_static",
    ),
    "reproduce dynamic": Command(
        "Returns on Cartpole of agents trained in the paper's models and in ours, with 95 % intervals.",
        "studies.dynamic", "DynamicConfig", "run_dynamic", "view_dynamic",
    ),
    "reproduce automatic": Command(
        "The automatic recipe beside its parts, a line, the paper's best and the true simulator.",
        "studies.automatic", "AutomaticConfig", "run_automatic", "view_automatic",
    ),
    "reproduce rivals": Command(
        "Other trainings for many steps ahead beside ours, at equal model steps.",
        "studies.rivals", "RivalsConfig", "run_rivals", "view_rivals",
    ),
    "reproduce likelihood": Command(
        "Weights learned by maximum likelihood; R2(h) of stochastic and deterministic models.",
        "studies.likelihood", "LikelihoodConfig", "run_likelihood", "view_likelihood",
    ),
    "reproduce uncertainty": Command(
        "Do intervals hold what they promise? Several ways to make them, on noisy and on real episodes.",
        "studies.uncertainty", "UncertaintyConfig", "run_uncertainty", "view_uncertainty",
    ),
    "reproduce benchmarks": Command(
        "Free runs over published records of plants: the automatic recipe beside lines and a network.",
        "studies.benchmarks", "BenchmarksConfig", "run_benchmarks", "view_benchmarks",
    ),
    "bench training": Command(
        "Speed and memory of training and scoring, beside a bare matrix product and PyTorch.",
        "bench.training", "TrainingBenchConfig", "run_training_bench", "view_bench",
    ),
    "bench cartpole": Command(
        "R2bar(100) of both presets on Cartpole random data, three seeds, beside the ceiling and the paper.",
        "bench.cartpole", "CartpoleBenchConfig", "run_cartpole_bench", "view_bench",
    ),
    "bench files": Command(
        "Loading beside the libraries' own plain reads, memory of large files, time to collect.",
        "bench.files", "FilesBenchConfig", "run_files_bench", "view_bench",
    ),
    "bench sigmoid": Command(
        "The 9,000 trainings of the two-parameter network as one program, beside a PyTorch loop.",
        "bench.sigmoid", "SigmoidBenchConfig", "run_sigmoid_bench", "view_bench",
    ),
    "bench sweep": Command(
        "Throughput of a sweep on all cores beside one worker, and what the sweep itself costs.",
        "bench.sweep", "SweepBenchConfig", "run_sweep_bench", "view_bench",
    ),
    "bench search": Command(
        "Successive halving beside the whole grid of the static study, on Cartpole random data.",
        "bench.search", "SearchBenchConfig", "run_search_bench", "view_bench",
    ),
    "bench smoothing": Command(
        "A fit to noisy episodes beside one to the same episodes smoothed.",
        "bench.smoothing", "SmoothingBenchConfig", "run_smoothing_bench", "view_bench",
    ),
    "bench export": Command(
        "Microseconds of one step of an exported model in C, NumPy, CasADi and onnxruntime, beside JAX.",
        "bench.export", "ExportBenchConfig", "run_export_bench", "view_bench",
    ),
    "bench judge": Command(
        "How often the judge behind the automatic recipe finds the better model, where the truth is known.",
        "bench.judge", "JudgeBenchConfig", "run_judge_bench", "view_bench",
    ),
    "bench quality": Command(
        "Model steps and seconds to a given score: the automatic recipe by its budget, beside one fit.",
        "bench.quality", "QualityBenchConfig", "run_quality_bench", "view_bench",
    ),
    "bench identification": Command(
        "Peers beside ours on published plants and on noisy episodes: jax-sysid, deepSI, tsfast.",
        "bench.identification", "IdentificationBenchConfig", "run_identification_bench", "view_bench",
    ),
    "bench particles": Command(
        "A thousand particles beside the bare products of their networks; five members beside one fit.",
        "bench.particles", "ParticlesBenchConfig", "run_particles_bench", "view_bench",
    ),
    "bench agents": Command(
        "SAC in the model, planning and the model as an environment, beside what they cannot beat.",
        "bench.agents", "AgentsBenchConfig", "run_agents_bench", "view_bench",
    ),
}  # fmt: skip
SINGLE_FILES = ("convert", "export")
"""Commands whose `out` is no folder but a file, which is replaced whole."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What a disk says that has no room left, while figures are drawn say."""
GROUPS = {
    "agent": "Train an agent in a learned model, plan with it, act with it.",
    "reproduce": "Run a study of the paper and draw its figures.",
    "bench": "Measure speed, memory and quality on this machine.",
}


def main(words: Sequence[str] | None = None) -> None:
    """Run one command. Bad input ends it with one sentence and exit code 2, Ctrl-C with 130."""
    words = list(sys.argv[1:] if words is None else words)
    if words == ["--version"]:
        print(f"multistep {version('multistep')}")
        return
    warnings.showwarning = _show_as_note
    try:
        name = _command_of(words)
        _run(name, words[len(name.split()) :])
    except InputError as error:
        _stop(str(error), 2)
    except (
        BrokenPipeError
    ):  # who reads has seen enough, `head` say; nor is what is left to be written at the exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        if error.errno not in FULL:
            raise
        where = error.filename or "a file"
        _stop(f"Cannot write {where}: {error.strerror}; free some space and start the same command again.", 2)
    except KeyboardInterrupt:
        _stop("Interrupted: the same command goes on from the last checkpoint, if there is one.", 130)


def _command_of(words: Sequence[str]) -> str:
    """The name of the command that the words begin with; if they ask which there are, these are shown."""
    for length in (1, 2):
        if (name := " ".join(words[:length])) in COMMANDS:
            return name
    group = words[0] if words and words[0] in GROUPS else None
    rest = words[1:] if group else words
    if not rest or rest[0] in ("-h", "--help"):
        _show_commands(group)
        raise SystemExit(0 if rest else 2)
    known = ", ".join(_names_in(group))
    what = f"There is no command '{' '.join(words[: 2 if group else 1])}'"
    raise InputError(f"{what}: multistep {f'{group} ' if group else ''}has {known}.")


def _run(name: str, words: Sequence[str]) -> None:
    import tyro
    from rich.console import Console

    from multistep.options import REGISTRY
    from multistep.runs.process import keep_compiled_programs, use_one_thread
    from multistep.runs.run_folder import alone_in

    command = COMMANDS[name]
    module = import_module(f"multistep.{command.module}")
    config = tyro.cli(
        getattr(module, command.config),
        prog=f"multistep {name}",
        description=command.help,
        args=words,
        registry=REGISTRY,
        **_defaults(name, words),
    )
    keep_compiled_programs()
    use_one_thread()
    folder = None if name in SINGLE_FILES else getattr(config, "out", None)
    output = Console(highlight=False, soft_wrap=True, markup=False)  # names and paths may hold brackets
    with nullcontext() if folder is None else alone_in(folder):
        found = getattr(module, command.run)(config)
        for shown in getattr(import_module("multistep.report.views"), command.view)(config, found):
            output.print(shown)


def _defaults(name: str, words: Sequence[str]) -> dict[str, Any]:
    """The options of `fit` start from a preset that is among the words: help shows the defaults of that
    one."""
    if name != "fit":
        return {}
    from multistep.commands.fit import FitFilesConfig, Source
    from multistep.training import PRESETS

    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--preset", nargs="?", default="default")
    chosen = parser.parse_known_args(words)[0].preset
    preset = chosen if chosen in PRESETS else "default"  # a wrong one is refused by the real parser
    return {"default": FitFilesConfig(Source(files=()), preset=preset, training=PRESETS[preset])}


def _names_in(group: str | None) -> list[str]:
    if group is not None:
        return [name.split()[1] for name in COMMANDS if name.startswith(f"{group} ")]
    return [*(name for name in COMMANDS if " " not in name), *GROUPS]


def _show_commands(group: str | None) -> None:
    helps = GROUPS | {name: command.help for name, command in COMMANDS.items()}
    prefix = f"{group} " if group else ""
    print(f"usage: multistep {prefix}COMMAND ... [-h]\n\n{GROUPS.get(group or '', DESCRIPTION)}\n\ncommands:")
    for name in _names_in(group):
        print(f"  {name:<10} {helps[prefix + name]}")
    print(f"\n'multistep {prefix}COMMAND --help' has the options of one.")


def _stop(sentence: str, code: int) -> NoReturn:
    print(f"multistep: {sentence}", file=sys.stderr)
    raise SystemExit(code)


def _show_as_note(message: Warning | str, category: type[Warning], *_: Any) -> None:
    if issubclass(category, UserWarning):
        _print_note(str(message))


@cache  # once each: a second fit finds the same oddities as the first
def _print_note(message: str) -> None:
    print(f"note: {message}", file=sys.stderr)
