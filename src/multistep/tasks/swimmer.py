"""Swimmer-v5 of Gymnasium: three links in a fluid, two motors. An episode has 1000 steps of 0.04 s."""

from multistep.tasks.locomotion import locomotion_task

SWIMMER = locomotion_task(
    "swimmer",
    environment="Swimmer-v5",
    state_names=(
        *("front_angle", "joint_1", "joint_2"),
        *("x_dot", "y_dot", "front_angle_dot", "joint_1_dot", "joint_2_dot"),
    ),
    action_names=("motor_1", "motor_2"),
    simulator_steps=4,
    num_hidden=2,
    forward_velocity="x_dot",
    control_cost=1e-4,
    step_seconds=0.04,
    angles=("front_angle",),
)
