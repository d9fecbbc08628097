"""Sequence to sequence with attention: GRUs learn to reverse a string of digits."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim

SOS, EOS, VOCABULARY, LENGTH = 0, 1, 12, 6


class Encoder(nn.Module):
    def __init__(self, vocabulary, hidden):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, hidden)
        self.gru = nn.GRU(hidden, hidden, batch_first=True, bidirectional=True)
        self.reduce = nn.Linear(2 * hidden, hidden)

    def forward(self, source):
        output, hidden = self.gru(self.embedding(source))
        hidden = torch.tanh(self.reduce(torch.cat([hidden[0], hidden[1]], dim=1)))
        return self.reduce(output), hidden.unsqueeze(0)


class Attention(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.Wa = nn.Linear(hidden, hidden)
        self.Ua = nn.Linear(hidden, hidden)
        self.Va = nn.Linear(hidden, 1)

    def forward(self, query, keys):
        scores = self.Va(torch.tanh(self.Wa(query) + self.Ua(keys))).squeeze(2).unsqueeze(1)
        weights = F.softmax(scores, dim=-1)
        return torch.bmm(weights, keys), weights


class Decoder(nn.Module):
    def __init__(self, hidden, vocabulary):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, hidden)
        self.attention = Attention(hidden)
        self.cell = nn.GRUCell(2 * hidden, hidden)
        self.out = nn.Linear(hidden, vocabulary)

    def forward(self, keys, hidden, target=None):
        token = torch.full((keys.size(0), 1), SOS, dtype=torch.long)
        hidden, outputs = hidden.squeeze(0), []
        for i in range(LENGTH + 1):
            context, _ = self.attention(hidden.unsqueeze(1), keys)
            step = torch.cat((self.embedding(token), context), dim=2).squeeze(1)
            hidden = self.cell(step, hidden)
            outputs.append(self.out(hidden))
            token = outputs[-1].argmax(1, keepdim=True).detach()
            if target is not None:
                token = target[:, i].unsqueeze(1)
        return F.log_softmax(torch.stack(outputs, dim=1), dim=-1)


def batch(n):
    source = torch.randint(2, VOCABULARY, (n, LENGTH))
    end = torch.full((n, 1), EOS)
    return source, torch.cat([source.flip(1), end], dim=1)


torch.manual_seed(11)
encoder, decoder = Encoder(VOCABULARY, 32), Decoder(32, VOCABULARY)
parameters = list(encoder.parameters()) + list(decoder.parameters())
optimizer = optim.Adam(parameters, lr=5e-3)
criterion = nn.NLLLoss()
for iteration in range(1, 31):
    source, target = batch(32)
    keys, hidden = encoder(source)
    output = decoder(keys, hidden, target)
    loss = criterion(output.view(-1, VOCABULARY), target.reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if iteration % 5 == 0:
        print(f"iteration {iteration}: loss {loss.item():.5f}")

with torch.no_grad():
    source, target = batch(4)
    keys, hidden = encoder(source)
    greedy = decoder(keys, hidden).argmax(-1)
    print("right tokens:", (greedy == target).sum().item(), "of", target.numel())
