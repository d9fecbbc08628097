"""A transformer encoder that classifies sequences by their most frequent token."""

import math

import torch
import torch.nn as nn
from torch.nn import TransformerEncoder, TransformerEncoderLayer


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, dropout=0.1, max_len=64):
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(1, max_len, d_model)
        pe[0, :, 0::2] = torch.sin(position * div_term)
        pe[0, :, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return self.dropout(x + self.pe[:, : x.size(1)])


class Classifier(nn.Module):
    def __init__(self, vocabulary, d_model=32, heads=4, layers=2, classes=4, dropout=0.1):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, d_model, padding_idx=0)
        self.position = PositionalEncoding(d_model, dropout)
        layer = TransformerEncoderLayer(d_model, heads, 64, dropout, batch_first=True)
        self.encoder = TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, classes)
        self.scale = math.sqrt(d_model)
        self.init_weights()

    def init_weights(self):
        nn.init.uniform_(self.head.weight, -0.1, 0.1)
        nn.init.zeros_(self.head.bias)

    def forward(self, tokens):
        padding = tokens == 0
        x = self.position(self.embed(tokens) * self.scale)
        x = self.encoder(x, src_key_padding_mask=padding)
        x = x.masked_fill(padding.unsqueeze(-1), 0.0)
        pooled = x.sum(1) / (~padding).sum(1, keepdim=True)
        return self.head(self.norm(pooled))


def batch(n, length=12):
    labels = torch.randint(0, 4, (n,))
    tokens = torch.randint(1, 9, (n, length))
    chosen = torch.rand(n, length) < 0.5
    tokens = torch.where(chosen, labels.unsqueeze(1) + 1, tokens)
    lengths = torch.randint(6, length + 1, (n,))
    tokens[torch.arange(length).unsqueeze(0) >= lengths.unsqueeze(1)] = 0
    return tokens, labels


torch.manual_seed(5)
model = Classifier(9)
criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / 10))
for step in range(30):
    tokens, labels = batch(32)
    loss = criterion(model(tokens), labels)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    warmup.step()
    if step % 5 == 4:
        print(f"step {step + 1:3d} loss {loss.item():.5f} lr {warmup.get_last_lr()[0]:.5f}")
