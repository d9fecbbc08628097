"""Deep Q-learning on a tiny grid: replay memory, target network, epsilon-greedy play."""

import math
import random
from collections import deque, namedtuple

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

Transition = namedtuple("Transition", ("state", "action", "next_state", "reward"))
random.seed(0)
torch.manual_seed(0)


class ReplayMemory:
    def __init__(self, capacity):
        self.memory = deque([], maxlen=capacity)

    def push(self, *args):
        self.memory.append(Transition(*args))

    def sample(self, batch_size):
        return random.sample(self.memory, batch_size)

    def __len__(self):
        return len(self.memory)


class DQN(nn.Module):
    def __init__(self, n_observations, n_actions):
        super().__init__()
        self.layer1 = nn.Linear(n_observations, 32)
        self.layer2 = nn.Linear(32, 32)
        self.layer3 = nn.Linear(32, n_actions)

    def forward(self, x):
        x = F.relu(self.layer1(x))
        x = F.relu(self.layer2(x))
        return self.layer3(x)


class Grid:
    moves = [(0, 1), (1, 0), (0, -1), (-1, 0)]

    def reset(self):
        self.position, self.time = (0, 0), 0
        return [0.0, 0.0]

    def step(self, action):
        dx, dy = self.moves[action]
        x, y = self.position
        self.position = (min(3, max(0, x + dx)), min(3, max(0, y + dy)))
        self.time += 1
        goal = self.position == (3, 3)
        return [v / 3 for v in self.position], 1.0 if goal else -0.1, goal or self.time >= 25


policy_net, target_net = DQN(2, 4), DQN(2, 4)
target_net.load_state_dict(policy_net.state_dict())
optimizer = optim.AdamW(policy_net.parameters(), lr=1e-3, amsgrad=True)
memory = ReplayMemory(500)
BATCH, GAMMA, TAU = 32, 0.95, 0.05
steps_done = 0


def select_action(state):
    global steps_done
    threshold = 0.1 + 0.8 * math.exp(-steps_done / 100)
    steps_done += 1
    if random.random() > threshold:
        with torch.no_grad():
            return policy_net(state).max(1).indices.view(1, 1)
    return torch.tensor([[random.randrange(4)]], dtype=torch.long)


def optimize_model():
    if len(memory) < BATCH:
        return None
    batch = Transition(*zip(*memory.sample(BATCH)))
    mask = torch.tensor([s is not None for s in batch.next_state], dtype=torch.bool)
    non_final = torch.cat([s for s in batch.next_state if s is not None])
    state_batch = torch.cat(batch.state)
    action_batch = torch.cat(batch.action)
    reward_batch = torch.cat(batch.reward)
    values = policy_net(state_batch).gather(1, action_batch)
    next_values = torch.zeros(BATCH)
    with torch.no_grad():
        next_values[mask] = target_net(non_final).max(1).values
    expected = (next_values * GAMMA) + reward_batch
    loss = F.smooth_l1_loss(values, expected.unsqueeze(1))
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_value_(policy_net.parameters(), 100)
    optimizer.step()
    return loss.item()


env = Grid()
for episode in range(8):
    state = torch.tensor([env.reset()])
    loss, done, total = None, False, 0.0
    while not done:
        action = select_action(state)
        observation, reward, done = env.step(action.item())
        next_state = None if done else torch.tensor([observation])
        memory.push(state, action, next_state, torch.tensor([reward]))
        state = next_state
        loss = optimize_model()
        target_state, policy_state = target_net.state_dict(), policy_net.state_dict()
        for key in policy_state:
            target_state[key] = policy_state[key] * TAU + target_state[key] * (1 - TAU)
        target_net.load_state_dict(target_state)
        total += reward
    print(f"episode {episode} steps {env.time} reward {total:.2f}", end=" ")
    print("loss -" if loss is None else f"loss {loss:.6f}")
