"""peft: LoRA on a small GPT-2: training, merging, saving and loading adapters."""

import tempfile

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
config = GPT2Config(vocab_size=101, n_embd=32, n_layer=2, n_head=4)
base = GPT2LMHeadModel(config)
state = {k: v.clone() for k, v in base.state_dict().items()}
ids = torch.arange(14).reshape(2, 7) * 5 % 97 + 3
lora = LoraConfig(
    r=4, lora_alpha=8, lora_dropout=0.1, target_modules=["c_attn"], fan_in_fan_out=True,
    task_type="CAUSAL_LM",
)  # fmt: skip
model = get_peft_model(base, lora)
print("trainable", model.get_nb_trainable_parameters())
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.01)
for step in range(4):
    optimizer.zero_grad()
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    print("loss", step, loss.item())

model.eval()
with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
    logits = model(input_ids=ids).logits
    with model.disable_adapter():
        print("without", (model(input_ids=ids).logits - logits).abs().max().item())
    model.save_pretrained(folder)
    fresh = GPT2LMHeadModel(config)
    fresh.load_state_dict(state)
    loaded = PeftModel.from_pretrained(fresh, folder).eval()
    print("loaded", torch.equal(loaded(input_ids=ids).logits, logits))
    merged = model.merge_and_unload()
    print("merged", torch.allclose(merged(input_ids=ids).logits, logits, atol=1e-5))
