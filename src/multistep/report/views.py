"""What each command shows when it has run: sentences, tables and figures, from what it has left on disk.

A view is handed the configuration and what `run` returned. Figures are imported where they are drawn: the
command line starts without them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from multistep.errors import InputError, counted
from multistep.report import sentences

Shown = Iterator[Any]


def view_demo(config: Any, summary: Any) -> Shown:
    from multistep.report.curves import draw_r2_curves

    yield sentences.demo_sentence(summary)
    yield sentences.score_table(config.out)
    yield (
        f"R2 at every horizon is drawn in {draw_r2_curves(config.out)}; models, rows and summary are beside "
        "it."
    )


def view_fit(config: Any, summary: Any) -> Shown:
    from multistep.report.curves import draw_r2_curves

    yield sentences.model_sentence(summary)
    yield sentences.score_table(config.out)
    yield from _free_runs(config.out, summary)
    yield from _intervals(config.out, summary)
    figure = draw_r2_curves(config.out)
    yield (
        f"The model is {config.out / 'model.safetensors'}; R2 and errors at every horizon are drawn in "
        f"{figure}."
    )


def view_score(config: Any, summary: Any) -> Shown:
    from multistep.report.curves import draw_r2_curves

    yield sentences.model_sentence(summary)
    yield sentences.score_table(config.out)
    yield from _free_runs(config.out, summary)
    yield from _intervals(config.out, summary)
    yield f"R2 and errors at every horizon are drawn in {draw_r2_curves(config.out)}."


def _free_runs(out: Path, summary: Any) -> Shown:
    """Errors of whole records in the plant's units, and a figure of three of them."""
    from multistep.report.traces import draw_traces

    if "free_run" not in summary:
        return
    yield sentences.free_run_table(summary)
    if summary["free_run"]["records"] > 1:
        yield sentences.records_table(out, summary["free_run"]["units"])
    yield f"Predicted and measured outputs, and their difference, are drawn in {draw_traces(out)}."


def _intervals(out: Path, summary: Any) -> Shown:
    """How honest the intervals are, and a figure of it."""
    from multistep.report.calibration_figures import draw_calibration

    yield from sentences.interval_sentences(summary)
    if "intervals" in summary:
        yield f"Coverage and width of the intervals at every horizon are drawn in {draw_calibration(out)}."


def view_select(config: Any, summary: Any) -> Shown:
    yield sentences.select_sentence(summary)
    yield sentences.select_table(config.out)
    yield f"The model, fitted to all episodes, is {config.out / 'model.safetensors'}."


def view_automatic(config: Any, summary: Any) -> Shown:
    yield sentences.automatic_sentence(summary)
    yield sentences.automatic_table(config.out)
    yield f"Seconds, model steps and scores without noise are in {config.out / 'rows.csv'}."


def view_rivals(config: Any, summary: Any) -> Shown:
    from multistep.report.rival_figures import draw_rivals, rivals_sentence, rivals_table

    yield rivals_sentence(summary)
    yield rivals_table(config.out)
    yield f"Table and figure, from the rows beside them: {', '.join(map(str, draw_rivals(config.out)))}."


def view_uncertainty(config: Any, summary: Any) -> Shown:
    from multistep.report.uncertainty_figures import draw_uncertainty, uncertainty_sentence, uncertainty_table

    yield uncertainty_sentence(summary)
    yield uncertainty_table(config.out)
    yield f"Table and figure, from the rows beside them: {', '.join(map(str, draw_uncertainty(config.out)))}."


def view_benchmarks(config: Any, summary: Any) -> Shown:
    yield sentences.benchmarks_sentence(summary)
    yield sentences.benchmarks_table(config.out)


def view_likelihood(config: Any, summary: Any) -> Shown:
    from multistep.report.likelihood_figures import draw_likelihood, likelihood_sentence, likelihood_table

    yield likelihood_sentence(summary)
    yield likelihood_table(config.out)
    yield f"Weights and R2(h), from the rows beside it, are drawn in {draw_likelihood(config.out)}."


def view_inspect(config: Any, summary: Any) -> Shown:
    from multistep.report.overview import draw_overview

    yield sentences.inspect_sentence(summary)
    yield sentences.inspect_table(config.out)
    yield from summary["remarks"]
    yield (
        "Noise is an upper estimate in per cent of the range: what neither fourth differences nor a linear "
        "prediction from the moments before and after explain. Returns, ranges and trajectories are drawn in "
        f"{draw_overview(config.out)}."
    )


def view_convert(config: Any, summary: Any) -> Shown:
    episodes, steps = (counted(summary[f"{what}s"], what) for what in ("episode", "step"))
    yield f"{episodes}, {steps}, {'is' if summary['episodes'] == 1 else 'are'} in {summary['out']}."


def view_export(config: Any, summary: Any) -> Shown:
    past = "one state" if summary["num_past"] == 1 else f"{summary['num_past']} past states"
    yield (
        f"The model is in {summary['out']}: it starts from {past} and carries "
        f"{counted(summary['memory_size'], 'number')} from step to step."
        + (f" What it starts from is made by {summary['start']}." if summary["start"] else "")
    )


def view_collect(config: Any, summary: Any) -> Shown:
    seconds = summary["seconds"]
    how = "was there already" if summary["was_present"] else f"was collected in {seconds:.0f} seconds"
    yield f"{summary['name']} {how}: {summary['path']}"
    yield sentences.datasets_table([summary])


def view_datasets(config: Any, rows: Any) -> Shown:
    yield sentences.datasets_table(rows)


def view_agent_train(config: Any, summary: Any) -> Shown:
    from multistep.report.agent_figures import draw_learning, train_sentence

    yield train_sentence(summary)
    yield f"Returns along the training are drawn in {draw_learning(config.out)}."


def view_agent_plan(config: Any, summary: Any) -> Shown:
    from multistep.report.agent_figures import draw_plan, plan_sentence

    yield plan_sentence(summary)
    yield f"States, actions and rewards are drawn in {draw_plan(config.out)}; rows are beside it."


def view_agent_evaluate(config: Any, summary: Any) -> Shown:
    from multistep.report.agent_figures import draw_strip, evaluate_sentence

    yield evaluate_sentence(summary)
    try:
        strip = draw_strip(config.out)
        yield f"Frames of the first episode are in {strip}; one row per episode is beside them."
    except InputError as error:
        yield str(error)


def view_linear(config: Any, summary: Any) -> Shown:
    from multistep.report.linear_figures import draw_linear

    yield sentences.linear_table(config.out)
    yield f"Figures, from the rows beside them: {', '.join(map(str, draw_linear(config.out)))}."


def view_sigmoid(config: Any, summary: Any) -> Shown:
    from multistep.report.sigmoid_figures import draw_sigmoid

    yield sentences.sigmoid_sentence(summary)
    yield sentences.sigmoid_table(config.out)
    yield f"Figures, from the rows beside them: {', '.join(map(str, draw_sigmoid(config.out)))}."


def view_static(config: Any, summary: Any) -> Shown:
    from multistep.report.static_figures import draw_static, static_sentence, static_table

    yield static_sentence(summary)
    yield static_table(config.out)
    yield f"Table and figures, from the rows beside them: {', '.join(map(str, draw_static(config.out)))}."


def view_dynamic(config: Any, summary: Any) -> Shown:
    from multistep.report.dynamic_figures import draw_dynamic, dynamic_sentence, dynamic_table

    yield dynamic_sentence(summary)
    yield dynamic_table(config.out)
    yield f"Returns, from the rows beside them, are drawn in {draw_dynamic(config.out)}."


def view_bench(config: Any, summary: Any) -> Shown:
    yield sentences.bench_table(config.out)
