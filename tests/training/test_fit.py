import json
import math
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest

import multistep as ms
from multistep.training import Once, Outcome
from multistep.training.curricula import Steady, batches_of, cosine_rates
from systems import oscillator_episodes, random_episodes

SMALL = Once(network=ms.NetworkConfig(hidden_size=16), horizon=4, epochs=3, batch_size=32, least_steps=1)


@pytest.fixture(scope="module")
def data():
    return oscillator_episodes(6, 60, noise=0.01), oscillator_episodes(2, 60, noise=0.01, seed=1)


def leaves(model):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(model)]


def same_bits(first, second):
    return all(
        np.array_equal(mine, theirs) for mine, theirs in zip(leaves(first), leaves(second), strict=True)
    )


def test_a_fit_learns_and_tells_its_history(data):
    config = replace(SMALL, epochs=30, learning_rate=3e-3)
    result = ms.fit(*data, config, key=jax.random.key(0))
    assert result.outcome is Outcome.FINISHED
    assert [epoch.number for epoch in result.history] == list(range(30))
    assert all(len(epoch.errors) == len(epoch.weights) == 4 for epoch in result.history)
    assert all(math.isclose(sum(epoch.weights), 1) for epoch in result.history)
    assert all(epoch.seconds > 0 for epoch in result.history)
    assert result.history[-1].errors[0] < 0.1 * result.history[0].errors[0]
    test = oscillator_episodes(3, 60, noise=0.01, seed=2)
    assert ms.score(result.model, test, horizon=20).r2bar() > 0.95


def test_the_model_is_that_of_the_best_epoch(data):
    values = iter([0.1, 0.7, 0.3])
    seen = []

    def score(model, valid):
        seen.append(model)
        return next(values)

    result = ms.fit(*data, SMALL, key=jax.random.key(0), score=score)
    assert result.best_epoch is not None
    assert result.best_epoch.number == 1
    assert same_bits(result.model, seen[1])
    assert not same_bits(result.model, seen[2])


@pytest.mark.parametrize("values", [[math.nan, 0.2, 0.1], [-math.inf, 0.2, math.nan]])
def test_a_score_that_is_no_number_ranks_last(data, values):
    scores = iter(values)
    result = ms.fit(*data, SMALL, key=jax.random.key(0), score=lambda *_: next(scores))
    assert result.best_epoch is not None
    assert result.best_epoch.number == 1


@pytest.mark.parametrize("value", [-math.inf, math.nan])
def test_without_any_finite_score_the_last_epoch_is_kept(data, value):
    seen = []
    with pytest.warns(UserWarning, match="No epoch has a finite score"):
        result = ms.fit(
            *data, SMALL, key=jax.random.key(0), score=lambda model, _: (seen.append(model), value)[1]
        )
    assert same_bits(result.model, seen[-1])
    assert result.best_epoch is not None
    assert result.best_epoch.number == SMALL.epochs - 1


def test_a_score_that_no_longer_rises_stops_early(data):
    values = iter([0.1, 0.7, 0.3, 0.7, 0.2, 0.9])
    result = ms.fit(
        *data, replace(SMALL, epochs=6, patience=2), key=jax.random.key(0), score=lambda *_: next(values)
    )
    assert result.outcome is Outcome.STOPPED_EARLY
    assert len(result.history) == 4


def test_divergence_is_an_outcome(data):
    result = ms.fit(
        *data, replace(SMALL, epochs=20, learning_rate=1e200, weights=ms.Uniform()), key=jax.random.key(0)
    )
    assert result.outcome is Outcome.DIVERGED
    assert len(result.history) < 20
    assert all(np.isfinite(leaf).all() for leaf in leaves(result.model))


def test_interruption_is_an_outcome_and_the_fit_goes_on_later(data, tmp_path):
    def interrupted_at(number):
        count = 0

        def score(model, valid):
            nonlocal count
            count += 1
            if count == number:
                raise KeyboardInterrupt
            return ms.R2Bar(10)(model, valid)

        return score

    class Steady:
        """The same name and the same score, whatever happens to it."""

        def __init__(self, function):
            self.function = function

        def __call__(self, model, valid):
            return self.function(model, valid)

        def __repr__(self):
            return "Steady"

    checkpoint = tmp_path / "checkpoint.safetensors"
    options = {"key": jax.random.key(0), "checkpoint": checkpoint}
    first = ms.fit(*data, SMALL, score=Steady(interrupted_at(2)), **options)
    assert first.outcome is Outcome.INTERRUPTED
    assert len(first.history) == 1
    second = ms.fit(*data, SMALL, score=Steady(ms.R2Bar(10)), **options)
    whole = ms.fit(*data, SMALL, score=Steady(ms.R2Bar(10)), key=jax.random.key(0))
    assert second.outcome is Outcome.FINISHED
    assert [epoch.errors for epoch in second.history] == [epoch.errors for epoch in whole.history]
    assert same_bits(second.model, whole.model)
    finished = ms.fit(*data, SMALL, score=Steady(lambda *_: pytest.fail("trained again")), **options)
    assert same_bits(finished.model, whole.model)


def test_a_fit_with_a_score_of_the_users_own_goes_on_in_another_process(data, tmp_path):
    """There the same function is at another address."""

    def script():
        class Steepness:
            def __call__(self, model, valid):
                return 0.5

        def constant(model, valid):
            return 0.5

        return constant, Steepness(), lambda *_: 0.5

    for number, (first, again) in enumerate(zip(script(), script(), strict=True)):
        options = {"key": jax.random.key(0), "checkpoint": tmp_path / f"{number}.safetensors"}
        assert same_bits(
            ms.fit(*data, SMALL, score=first, **options).model,
            ms.fit(*data, SMALL, score=again, **options).model,
        )
        with pytest.raises(ms.InputError, match="belongs to a fit with other data, settings or seed"):
            ms.fit(*data, SMALL, score=ms.R2Bar(10), **options)


def test_a_checkpoint_of_other_weights_in_an_array_is_refused(data, tmp_path):
    options = {"key": jax.random.key(0), "checkpoint": tmp_path / "checkpoint.safetensors"}
    ms.fit(*data, replace(SMALL, weights=ms.Exponential(jax.numpy.asarray(0.1))), **options)
    with pytest.raises(ms.InputError, match="belongs to a fit with other data, settings or seed"):
        ms.fit(*data, replace(SMALL, weights=ms.Exponential(jax.numpy.asarray(20.0))), **options)


def test_same_key_same_bits_other_key_other_bits(data):
    first, again, other = (ms.fit(*data, SMALL, key=jax.random.key(seed)).model for seed in (0, 0, 1))
    assert same_bits(first, again)
    assert not same_bits(first, other)


@pytest.mark.slow
def test_paper_preset_trains_with_batch_norm_and_dropout(data):
    config = replace(ms.PAPER, network=replace(ms.PAPER.network, hidden_size=32), epochs=30)
    result = ms.fit(*data, config, key=jax.random.key(0))
    assert ms.score(result.model, data[1], horizon=10).r2bar() > 0.8


WORKER = """
import sys, json, jax
from dataclasses import replace
import numpy as np
import multistep as ms
sys.path.insert(0, sys.argv[1])
from systems import oscillator_episodes
train, valid = oscillator_episodes(6, 60, noise=0.01), oscillator_episodes(2, 60, noise=0.01, seed=1)
network = replace(ms.PAPER.network, hidden_size=16)
config = replace(ms.PAPER, network=network, epochs=200, batch_size=32)
result = ms.fit(train, valid, config, key=jax.random.key(0), checkpoint=sys.argv[2])
ms.save_model(result.model, sys.argv[3])
"""


@pytest.mark.slow
def test_killed_at_any_moment_it_ends_with_the_same_bits(tmp_path):
    """SIGKILL at several moments, then the same command to the end, against a run that was left alone."""

    def command(name):
        arguments = [
            str(Path(__file__).parents[1]),
            str(tmp_path / f"{name}.checkpoint"),
            str(tmp_path / f"{name}.safetensors"),
        ]
        return [sys.executable, "-c", WORKER, *arguments]

    kills = 0
    for delay in (0.3, 0.05, 0.6, 0.2):
        process = subprocess.Popen(command("killed"))
        while process.poll() is None and not (tmp_path / "killed.checkpoint").exists():
            time.sleep(0.01)
        time.sleep(delay)
        kills += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert kills >= 2, "the fit was over before it could be killed"
    subprocess.run(command("killed"), check=True)
    subprocess.run(command("whole"), check=True)
    assert (tmp_path / "killed.safetensors").read_bytes() == (tmp_path / "whole.safetensors").read_bytes()


def test_checkpoints_of_other_fits_and_damaged_ones_are_refused(data, tmp_path):
    checkpoint = tmp_path / "checkpoint.safetensors"
    ms.fit(*data, SMALL, key=jax.random.key(0), checkpoint=checkpoint)
    for other in (
        {"recipe": replace(SMALL, epochs=4)},
        {"key": jax.random.key(1)},
        {"train": oscillator_episodes(6, 60, noise=0.02)},
        {"score": ms.R2Bar(7)},
    ):
        arguments = {"train": data[0], "valid": data[1], "recipe": SMALL, "key": jax.random.key(0)} | other
        with pytest.raises(ms.InputError, match="belongs to a fit with other data, settings or seed"):
            ms.fit(**arguments, checkpoint=checkpoint)
    checkpoint.write_bytes(checkpoint.read_bytes()[:-10])
    with pytest.raises(ms.InputError, match="is damaged: delete it"):
        ms.fit(*data, SMALL, key=jax.random.key(0), checkpoint=checkpoint)


def test_short_episodes_and_constant_columns_are_said():
    train = random_episodes([3, 10, 12], state_size=2, action_size=1)
    with pytest.warns(
        UserWarning, match="1 of 3 training episodes are shorter than the horizon of 4 steps and take no part"
    ):
        ms.fit(train, train, replace(SMALL, epochs=1), key=jax.random.key(0))
    with pytest.raises(
        ms.InputError,
        match=r"All 3 training episodes are shorter than the horizon of 20 steps \(the longest has 12\)",
    ):
        ms.fit(train, train, replace(SMALL, horizon=20), key=jax.random.key(0))
    still = train.with_states(np.stack([train.states[:, 0], np.full(len(train.states), 7.0)], axis=1))
    with pytest.warns(UserWarning, match="never change in state_1"):
        result = ms.fit(still, still, replace(SMALL, horizon=2, epochs=1), key=jax.random.key(0))
    assert np.isfinite(result.history[0].score)


def test_validation_data_of_another_width_are_refused(data):
    with pytest.raises(ms.InputError, match="state dimension"):
        ms.fit(data[0], random_episodes([30]), SMALL, key=jax.random.key(0))


def test_fewer_windows_than_a_batch_still_train():
    train = oscillator_episodes(1, 10)
    result = ms.fit(train, train, replace(SMALL, batch_size=64), key=jax.random.key(0))
    assert result.outcome is Outcome.FINISHED


def test_a_small_dataset_is_passed_over_until_there_were_enough_steps():
    config = replace(SMALL, epochs=3, least_steps=100, batch_size=64)
    for num_windows, sizes, num_epochs in ((6400, (64, 100), 3), (650, (64, 10), 10), (10, (10, 1), 100)):
        assert batches_of(config, num_windows) == sizes
        assert Steady().num_epochs(config, lambda _, count=num_windows: count) == num_epochs


def test_learning_rates_fall_along_half_a_cosine():
    rates = np.concatenate([cosine_rates(1e-3, epoch, 5, 4) for epoch in range(4)])
    np.testing.assert_allclose(
        rates, [1e-3 * (1 + math.cos(math.pi * i / 20)) / 2 for i in range(20)], rtol=1e-12
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"horizon": 0}, "horizon is 0: it must be 1 or more"),
        ({"batch_size": 0}, "batch size is 0"),
        ({"learning_rate": 0.0}, "above 0"),
        ({"weights": ms.Custom([0.5, 0.5])}, "2 weights for a horizon of 4"),
    ],
)
def test_bad_settings_get_one_sentence(change, words):
    with pytest.raises(ms.InputError, match=words):
        replace(SMALL, **change)


@pytest.mark.slow
def test_a_second_process_finds_the_compiled_program(tmp_path):
    program = (
        "import sys, json, pathlib, jax, multistep as ms; from dataclasses import replace; "
        "sys.path.insert(0, sys.argv[1]);from systems import oscillator_episodes; from "
        "multistep.runs.process import "
        "keep_compiled_programs;keep_compiled_programs(pathlib.Path(sys.argv[2])); d = "
        "oscillator_episodes(3, 40);ms.fit(d, d, replace(ms.DEFAULT, horizon=4, epochs=1, least_steps=1), "
        "key=jax.random.key(int(sys.argv[3])));print(json.dumps(len([p for p in "
        "pathlib.Path(sys.argv[2]).iterdir() if p.name.endswith('-cache')])))"
    )
    counts = [
        json.loads(
            subprocess.run(
                [sys.executable, "-c", program, str(Path(__file__).parents[1]), str(tmp_path), seed],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
        )
        for seed in ("0", "1")
    ]
    assert counts[0] > 0
    assert counts[1] == counts[0]
