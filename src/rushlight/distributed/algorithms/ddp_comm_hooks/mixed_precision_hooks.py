"""DDP with parameters of another precision: left out; ``torch.autocast`` computes in it."""
