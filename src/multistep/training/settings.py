"""`Settings`: what a training is asked for, besides the data, the key and what is learned."""

from dataclasses import dataclass, field

from multistep.errors import InputError
from multistep.losses import AbstractLoss, AbstractWeights, Balanced, MultiStep


@dataclass(frozen=True)
class Settings:
    """How a dynamics is trained."""

    horizon: int = 40
    """Steps ahead that the loss looks at; 1 is the usual one-step loss."""
    weights: AbstractWeights = field(default_factory=Balanced)
    """Weights of the steps ahead: balanced, uniform, exponential:BETA, the weights themselves as 0.5,0.3,0.2,
    or module:Name for your own."""
    loss: AbstractLoss = field(default_factory=MultiStep)
    """What a batch costs: multistep, likelihood (of a gaussian architecture), hallucinated,
    scheduled:PROBABILITY, noisy:deviation=DEVIATION, or module:Name for your own."""
    epochs: int = 5
    """Passes over all windows; the learning rate falls to zero along a cosine over them."""
    least_steps: int = 2500
    """Gradient steps to take at least: a small dataset is passed over more often than `epochs` says."""
    batch_size: int = 64
    """Windows per gradient step."""
    learning_rate: float = 1e-3
    """Step size of Adam at the start."""
    patience: int | None = None
    """Stop once this many epochs in a row have not improved the validation score; none: never."""

    def __post_init__(self) -> None:
        for name in ("horizon", "epochs", "least_steps", "batch_size", "patience"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"The {name.replace('_', ' ')} is {value}: it must be 1 or more.")
        if not 0 < self.learning_rate < float("inf"):
            raise InputError(
                f"The learning rate is {self.learning_rate}: it must be a finite number above 0."
            )
        for name, kind, example in (
            ("weights", AbstractWeights, "Balanced()"),
            ("loss", AbstractLoss, "MultiStep()"),
        ):
            if not isinstance(value := getattr(self, name), kind):
                raise InputError(f"The {name} are {value!r}: give an object, such as {example}.")
        self.weights.check(self.horizon)
