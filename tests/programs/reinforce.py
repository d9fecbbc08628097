"""REINFORCE on a tiny corridor: a policy by log probabilities, returns as weights."""

from collections import deque

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim


class Corridor:
    """Walk right to the goal; each step costs a little."""

    size = 6

    def reset(self):
        self.at, self.steps = 0, 0
        return self.state()

    def state(self):
        s = [0.0] * self.size
        s[self.at] = 1.0
        return s

    def step(self, action):
        self.steps += 1
        self.at = max(0, self.at - 1) if action == 0 else self.at + 1
        done = self.at == self.size - 1 or self.steps >= 20
        reward = 1.0 if self.at == self.size - 1 else -0.05
        return self.state(), reward, done


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(Corridor.size, 16)
        self.affine2 = nn.Linear(16, 2)
        self.saved_log_probs = []
        self.rewards = []

    def forward(self, x):
        return F.softmax(self.affine2(F.relu(self.affine1(x))), dim=1)


torch.manual_seed(543)
policy = Policy()
optimizer = optim.Adam(policy.parameters(), lr=1e-2)
eps, gamma = 1e-6, 0.99


def select_action(state):
    state = torch.tensor(state, dtype=torch.float32).unsqueeze(0)
    probabilities = policy(state)
    action = torch.multinomial(probabilities, 1)
    policy.saved_log_probs.append(torch.log(probabilities.gather(1, action)).squeeze(1))
    return action.item()


def finish_episode():
    R = 0
    returns = deque()
    for r in policy.rewards[::-1]:
        R = r + gamma * R
        returns.appendleft(R)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + eps)
    policy_loss = [-log_prob * R for log_prob, R in zip(policy.saved_log_probs, returns)]
    optimizer.zero_grad()
    loss = torch.cat(policy_loss).sum()
    loss.backward()
    optimizer.step()
    del policy.rewards[:]
    del policy.saved_log_probs[:]
    return loss.item()


environment = Corridor()
running = 0.0
for episode in range(1, 41):
    state, total = environment.reset(), 0.0
    for _ in range(100):
        state, reward, done = environment.step(select_action(state))
        policy.rewards.append(reward)
        total += reward
        if done:
            break
    running = 0.05 * total + 0.95 * running
    loss = finish_episode()
    if episode % 8 == 0:
        print(f"Episode {episode}\tLast {total:.2f}\tAverage {running:.4f}\tLoss {loss:.5f}")
