"""What programs that ``torchrun`` starts import; ``rushlight launch`` starts them."""
