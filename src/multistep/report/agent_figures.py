"""Figures and sentences of `multistep agent`, from the rows that it leaves."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from multistep.errors import counted
from multistep.report.drawing import COLOURS, figure_file, read_rows
from multistep.tasks import TASKS
from multistep.tasks.pictures import draw_frames


def train_sentence(summary: dict[str, Any]) -> str:
    returns = summary["rollout_return"]
    earned = (
        "no rollout has ended yet"
        if returns is None
        else f"its last rollouts in the model return {returns:.4g}"
    )
    return (
        f"SAC took {summary['steps']} steps in the model; {earned}, and {summary['left_share']:.1%} of all "
        f"rollouts left the range of the data. The agent is {summary['agent']}."
    )


def plan_sentence(summary: dict[str, Any]) -> str:
    first = ", ".join(f"{name} = {value:.4g}" for name, value in summary["first_action"].items())
    ended = "; there the model left the range of the data" if summary["left"] else ""
    return (
        f"First action: {first}. Over {summary['steps']} steps in the model the plan earns "
        f"{summary['return']:.4g}{ended}."
    )


def evaluate_sentence(summary: dict[str, Any]) -> str:
    noise = f" that are seen with {summary['noise']:.1%} noise" if summary["noise"] else ""
    interval = (
        ""
        if summary["episodes"] < 2
        else f" (95 % interval {summary['return_low']:.1f} to {summary['return_high']:.1f})"
    )
    return (
        f"Mean return {summary['return_mean']:.1f}{interval} over {counted(summary['episodes'], 'episode')} "
        f"of {summary['task']}{noise}; {1000 * summary['seconds_per_step']:.0f} ms per step."
    )


def draw_learning(out: Path) -> Path:
    """Returns of rollouts in the model along the training."""
    rows, path = read_rows(out / "rows.csv"), out / "learning.png"
    with figure_file(path, 1, 1, (6, 3.5)) as (axes,):
        axes.plot(rows["steps"], rows["rollout_return"], color=COLOURS[1], marker="o", markersize=3)
        axes.set(xlabel="steps in the model", ylabel="return of a rollout")
        axes.grid(alpha=0.3)
    return path


def draw_plan(out: Path) -> Path:
    """States, actions and rewards of an episode that was planned in the model."""
    rows, path = read_rows(out / "rows.csv"), out / "plan.png"
    names = json.loads((out / "summary.json").read_text())
    panels = {"state": names["states"], "action": names["actions"], "reward": ["reward"]}
    with figure_file(path, 3, 1, (7, 7)) as every:
        for axes, (label, columns) in zip(every, panels.items(), strict=True):
            for number, name in enumerate(columns):
                axes.plot(
                    rows["step"], rows[name], label=name, color=COLOURS[number % len(COLOURS)], linewidth=1.2
                )
            axes.set(ylabel=label)
            axes.grid(alpha=0.3)
            if len(columns) > 1 or label != "reward":
                axes.legend(fontsize=7, ncols=4)
        every[-1].set(xlabel="step")
    return path


def draw_strip(out: Path) -> Path:
    """Frames of the first episode side by side; an `InputError` says so where there is no way to draw."""
    summary, path = json.loads((out / "summary.json").read_text()), out / "first_episode.png"
    rows = read_rows(out / "rows.csv")
    frames = draw_frames(TASKS[summary["task"]], np.asarray(summary["poses"]))
    steps = np.linspace(0, rows["steps"][0], len(frames)).round().astype(int)
    with figure_file(path, 2, -(-len(frames) // 2), (10, 3.4)) as every:
        for axes in every:
            axes.axis("off")
        for axes, frame, step in zip(every, frames, steps, strict=False):
            axes.imshow(frame)
            axes.set_title(f"step {step}", fontsize=8)
    return path
