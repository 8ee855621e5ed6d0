import math
from dataclasses import replace

import numpy as np
import pytest

from multistep.errors import InputError
from multistep.selection.candidates import PAPER_BETAS, PAPER_HORIZONS, grid
from multistep.selection.ranked import Ranked
from multistep.selection.search import Grid, Halving, shortened
from multistep.training import DEFAULT, PAPER

CANDIDATES = grid(PAPER, PAPER_HORIZONS, PAPER_BETAS)


class Landscape:
    """Scores that are known: each candidate has a worth, a short training shows it less clearly. Counts what
    it costs."""

    def __init__(self, seed, blur, lost=()):
        rng = np.random.default_rng(seed)
        self.worth = {
            (c.horizon, c.weights): worth
            for c, worth in zip(CANDIDATES, rng.uniform(0, 1, len(CANDIDATES)), strict=True)
        }
        self.rng, self.blur, self.lost, self.epochs = rng, blur, lost, 0

    def __call__(self, configs):
        self.epochs += sum(config.epochs for config in configs)
        return [Ranked(config, self._scores(config), 1.0, None) for config in configs]

    def _scores(self, config):
        if config.horizon in self.lost:
            return (-math.inf, 0.5, 0.5)
        blur = self.blur * (1 - config.epochs / PAPER.epochs)
        return tuple(
            (self.worth[config.horizon, config.weights] + blur * self.rng.standard_normal(3)).tolist()
        )

    @property
    def winner(self):
        return max(
            (c for c in CANDIDATES if c.horizon not in self.lost),
            key=lambda c: self.worth[c.horizon, c.weights],
        )


def test_the_grid_trains_everything_in_full():
    landscape = Landscape(0, 0.0)
    found = Grid()(CANDIDATES, landscape)
    assert [ranked.config for ranked in found] == CANDIDATES
    assert max(found, key=lambda ranked: ranked.mean).config == landscape.winner


@pytest.mark.parametrize("seed", range(10))
def test_halving_finds_the_winner_at_less_than_a_third_of_the_cost(seed):
    landscape = Landscape(seed, 0.02)
    found = Halving()(CANDIDATES, landscape)
    assert max(found, key=lambda ranked: ranked.mean).config == landscape.winner
    assert all(ranked.config.epochs == PAPER.epochs for ranked in found)
    assert landscape.epochs < PAPER.epochs * len(CANDIDATES) / 3


def test_halving_drops_what_fails():
    landscape = Landscape(1, 0.02, lost=(10, 4))
    found = Halving()(CANDIDATES, landscape)
    assert max(found, key=lambda ranked: ranked.mean).config == landscape.winner


def test_halving_takes_one_candidate_and_one_rung():
    landscape = Landscape(0, 0.0)
    assert [ranked.config for ranked in Halving()(CANDIDATES[:1], landscape)] == CANDIDATES[:1]
    assert len(Halving(num_rungs=1)(CANDIDATES, landscape)) == len(CANDIDATES)
    with pytest.raises(InputError, match="a factor of 2 or more"):
        Halving(factor=1)


def test_a_shortened_training_keeps_all_but_its_length():
    short = shortened(replace(DEFAULT, patience=3), 4)
    assert (short.epochs, short.least_steps, short.patience) == (2, 625, None)
    assert replace(short, epochs=DEFAULT.epochs, least_steps=DEFAULT.least_steps) == DEFAULT
