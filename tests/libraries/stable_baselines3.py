"""stable-baselines3: PPO, A2C, DQN and SAC for a few steps each; saving and loading."""

import os
import tempfile

import gymnasium
import torch
from stable_baselines3 import A2C, DQN, PPO, SAC

torch.set_num_threads(1)


def summary(model):
    return sum(v.double().abs().sum().item() for v in model.policy.state_dict().values())


runs = {
    "PPO": (PPO, "CartPole-v1", {"n_steps": 64, "batch_size": 32, "n_epochs": 2}, 128),
    "A2C": (A2C, "CartPole-v1", {}, 50),
    "DQN": (DQN, "CartPole-v1", {"learning_starts": 20, "batch_size": 16}, 60),
    "SAC": (SAC, "Pendulum-v1", {"learning_starts": 20, "batch_size": 16}, 30),
}
for name, (kind, world, options, steps) in runs.items():
    model = kind(
        "MlpPolicy", gymnasium.make(world), seed=0, device="cpu",
        policy_kwargs={"net_arch": [16, 16]}, **options,
    )  # fmt: skip
    print(name, "start", summary(model))
    model.learn(steps)
    observation = model.get_env().reset()
    action, _ = model.predict(observation, deterministic=True)
    print(name, "after", summary(model), action.tolist())
    with tempfile.TemporaryDirectory() as folder:
        model.save(os.path.join(folder, "model"))
        again = kind.load(os.path.join(folder, "model"), device="cpu")
    print(name, "again", summary(again) == summary(model))
