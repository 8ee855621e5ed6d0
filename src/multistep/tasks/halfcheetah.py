"""HalfCheetah-v5 of Gymnasium: a planar runner with six motors. An episode has 1000 steps of 0.05 s."""

from multistep.tasks.locomotion import locomotion_task

JOINTS = ("back_thigh", "back_shin", "back_foot", "front_thigh", "front_shin", "front_foot")

HALFCHEETAH = locomotion_task(
    "halfcheetah",
    environment="HalfCheetah-v5",
    state_names=(
        "height",
        "pitch",
        *JOINTS,
        "x_dot",
        "height_dot",
        "pitch_dot",
        *(f"{joint}_dot" for joint in JOINTS),
    ),
    action_names=tuple(f"{joint}_motor" for joint in JOINTS),
    simulator_steps=5,
    num_hidden=1,
    forward_velocity="x_dot",
    control_cost=0.1,
    step_seconds=0.05,
    angles=("pitch",),
)
