"""Names of array shapes, used in every public signature."""

from jaxtyping import Array, Float, Int, PRNGKeyArray
from jaxtyping import Key as KeyOf
from numpy import ndarray

State = Float[Array, " state"]
Action = Float[Array, " action"]
States = Float[Array, "time state"]
Actions = Float[Array, "time action"]
AllStates = Float[Array, "all_states state"]
AllActions = Float[Array, "all_steps action"]
PerHorizon = Float[Array, " horizon"]
Scalar = Float[Array, ""]
Key = PRNGKeyArray
Keys = KeyOf[Array, " windows"]

# Data at rest are NumPy arrays: they are read, checked and split before anything is compiled.
FlatStates = Float[ndarray, "all_states state"]
FlatActions = Float[ndarray, "all_steps action"]
FlatRewards = Float[ndarray, " all_steps"]
Lengths = Int[ndarray, " episodes"]
