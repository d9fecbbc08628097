"""A character RNN from scratch: names by language, one letter at a time."""

import string

import torch
import torch.nn as nn

NAMES = {
    "English": ["Abbott", "Baker", "Carter", "Dixon", "Fisher", "Harris", "Walker"],
    "Italian": ["Abate", "Bellini", "Conti", "Esposito", "Ferrari", "Moretti", "Rossi"],
    "Japanese": ["Abe", "Fujita", "Hayashi", "Ito", "Kimura", "Nakamura", "Yamada"],
}
letters = string.ascii_letters + " .,;'"
categories = list(NAMES)


def to_tensor(line):
    tensor = torch.zeros(len(line), 1, len(letters))
    for i, letter in enumerate(line):
        tensor[i][0][letters.find(letter)] = 1
    return tensor


class RNN(nn.Module):
    def __init__(self, input_size, hidden_size, output_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.i2h = nn.Linear(input_size, hidden_size)
        self.h2h = nn.Linear(hidden_size, hidden_size)
        self.h2o = nn.Linear(hidden_size, output_size)
        self.softmax = nn.LogSoftmax(dim=1)

    def forward(self, input, hidden):
        hidden = torch.tanh(self.i2h(input) + self.h2h(hidden))
        return self.softmax(self.h2o(hidden)), hidden

    def init_hidden(self):
        return torch.zeros(1, self.hidden_size)


torch.manual_seed(1)
rnn = RNN(len(letters), 32, len(categories))
criterion = nn.NLLLoss()
learning_rate = 0.05


def pick(options):
    return options[int(torch.randint(0, len(options), (1,)).item())]


def step(category, line):
    hidden = rnn.init_hidden()
    rnn.zero_grad()
    for letter in to_tensor(line):
        output, hidden = rnn(letter, hidden)
    loss = criterion(output, torch.tensor([categories.index(category)]))
    loss.backward()
    for p in rnn.parameters():
        p.data.add_(p.grad.data, alpha=-learning_rate)
    return output, loss.item()


total = 0.0
for iteration in range(1, 201):
    category = pick(categories)
    line = pick(NAMES[category])
    output, loss = step(category, line)
    total += loss
    if iteration % 40 == 0:
        guess = categories[output.topk(1)[1].item()]
        print(f"{iteration} {total / 40:.5f} {line} / {guess}")
        total = 0.0

with torch.no_grad():
    for line in ("Fujimoto", "Bianchi"):
        hidden = rnn.init_hidden()
        for letter in to_tensor(line):
            output, hidden = rnn(letter, hidden)
        print(line, [f"{v:.4f}" for v in output.exp().squeeze().tolist()])
