#!/bin/sh
# The commands behind everything in this folder.
set -eu
multistep reproduce linear --scale paper --out results/linear
multistep reproduce sigmoid --scale paper --out results/sigmoid
multistep reproduce sigmoid --scale paper --seed 1 --out results/sigmoid_seed_1
multistep reproduce sigmoid --scale paper --seed 2 --out results/sigmoid_seed_2
multistep reproduce sigmoid --scale paper --seed 3 --out results/sigmoid_seed_3
multistep reproduce static --scale paper --dataset cartpole/random swimmer/random halfcheetah/random --horizons 1 --out results/static
multistep reproduce static --scale paper --dataset cartpole/random --out results/static
multistep reproduce static --scale paper --dataset swimmer/random --noise 0.01 0.02 --horizons 4 10 --betas 0.5 --out results/static
multistep reproduce static --scale paper --dataset swimmer/random --noise 0.01 --horizons 3 4 --betas 0.1 0.3 --out results/static
multistep reproduce static --scale paper --dataset swimmer/random --noise 0.01 --horizons 10 --betas 1 1.5 --out results/static
multistep reproduce static --scale paper --dataset swimmer/random --noise 0.01 --horizons 3 4 --betas 1.5 --out results/static
multistep reproduce static --scale paper --dataset halfcheetah/random --noise 0.01 --horizons 4 --betas 0.1 1.5 --out results/static
multistep reproduce static --scale paper --dataset halfcheetah/random --noise 0.02 --horizons 10 --betas 0.3 --out results/static
multistep select cartpole/random --noise 0 --preset paper --horizons 1 --vary epochs=3,10,30 --out results/training_length_0
multistep select cartpole/random --noise 0.01 --preset paper --horizons 1 --vary epochs=3,10,30 --out results/training_length_1
multistep select cartpole/random --noise 0.02 --preset paper --horizons 1 --vary epochs=3,10,30 --out results/training_length_2
multistep select swimmer/random --preset paper --horizons 1 --vary network.dropout=0.1,0 network.batch_norm=true,false network.activation=relu,tanh --out results/swimmer_variations
multistep select swimmer/random --preset paper --horizons 1 --vary epochs=30,100 --out results/swimmer_training_length
mkdir -p runs
for seed in 1 2; do  # other sets of random episodes
  python -c "import jax, multistep as ms; from multistep.tasks import CARTPOLE
ms.save(CARTPOLE.collect_random(50, key=jax.random.key($seed)), 'runs/cartpole_seed_$seed.npz')"
done
multistep select runs/cartpole_seed_1.npz --noise 0.01 --preset paper --horizons 1 --out results/other_episodes_1_noise_1
multistep select runs/cartpole_seed_1.npz --noise 0.02 --preset paper --horizons 1 --out results/other_episodes_1_noise_2
multistep select runs/cartpole_seed_2.npz --noise 0.01 --preset paper --horizons 1 --out results/other_episodes_2_noise_1
multistep select runs/cartpole_seed_2.npz --noise 0.02 --preset paper --horizons 1 --out results/other_episodes_2_noise_2
python -c "import jax, multistep as ms; from multistep.tasks import HALFCHEETAH, SWIMMER
ms.save(SWIMMER.collect_random(50, key=jax.random.key(1)), 'runs/swimmer_seed_1.npz')
ms.save(HALFCHEETAH.collect_random(100, key=jax.random.key(1)), 'runs/halfcheetah_seed_1.npz')"
multistep select runs/swimmer_seed_1.npz --preset paper --horizons 1 --out results/other_episodes_swimmer
multistep select halfcheetah/random --noise 0.01 --preset paper --horizons 1 --out results/halfcheetah_folds
multistep select runs/halfcheetah_seed_1.npz --noise 0.01 --preset paper --horizons 1 --out results/other_episodes_halfcheetah
multistep reproduce static --scale quick --out results/static_quick
multistep reproduce dynamic --scale quick --out results/dynamic_quick
# Recordings of a pendulum on a test bench, by others: the folder simple_pendulum as docs/smoothing.md says.
multistep fit simple_pendulum/pd_failure.csv --states position velocity --actions torque --time time --cut 200 --recipe once --out results/pendulum_pd_failure_once
multistep fit simple_pendulum/pd_failure.csv --states position velocity --actions torque --time time --cut 200 --recipe smoothed --out results/pendulum_pd_failure_twice
multistep fit simple_pendulum/energy_shaping.csv --states position velocity --actions torque --time time --cut 200 --recipe once --out results/pendulum_energy_shaping_once
multistep fit simple_pendulum/energy_shaping.csv --states position velocity --actions torque --time time --cut 200 --recipe smoothed --out results/pendulum_energy_shaping_twice
multistep fit simple_pendulum/ddp.csv --states position velocity --actions torque --time time --cut 200 --recipe once --out results/pendulum_ddp_once
multistep fit simple_pendulum/ddp.csv --states position velocity --actions torque --time time --cut 200 --recipe smoothed --out results/pendulum_ddp_twice
multistep fit simple_pendulum/sac.csv --states position velocity --actions torque --time time --cut 200 --recipe once --out results/pendulum_sac_once
multistep fit simple_pendulum/sac.csv --states position velocity --actions torque --time time --cut 200 --recipe smoothed --out results/pendulum_sac_twice
multistep reproduce automatic --scale paper --out results/automatic
multistep reproduce likelihood --scale quick --grid results/static --out results/likelihood
# Published records of plants: the folder is where cascaded_tanks.csv, silverbox.parquet and the others are.
multistep reproduce benchmarks data --scale paper --out results/benchmarks
multistep reproduce uncertainty --scale quick --dataset cartpole/random swimmer/random --data data --out results/uncertainty
multistep reproduce rivals --scale quick --dataset cartpole/random --noise 0.02 --out results/rivals
