"""transformers: five small models: forward, backward, generate, save and load; the Trainer."""

import sys
import tempfile

import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PrinterCallback,
    T5Config,
    T5ForConditionalGeneration,
    Trainer,
    TrainingArguments,
    ViTConfig,
    ViTForImageClassification,
)

small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
wide = {**small, "intermediate_size": 64}
ids = torch.arange(14).reshape(2, 7) * 5 % 97 + 3
images = torch.sin(torch.arange(2 * 3 * 16 * 16.0)).reshape(2, 3, 16, 16)
models = {
    "gpt2": lambda: GPT2LMHeadModel(GPT2Config(vocab_size=101, n_embd=32, n_layer=2, n_head=4)),
    "bert": lambda: BertForMaskedLM(BertConfig(vocab_size=101, **wide)),
    "llama": lambda: LlamaForCausalLM(LlamaConfig(vocab_size=101, num_key_value_heads=2, **wide)),
    "t5": lambda: T5ForConditionalGeneration(
        T5Config(
            vocab_size=101,
            d_model=32,
            d_kv=8,
            d_ff=64,
            num_layers=2,
            num_heads=4,
            decoder_start_token_id=0,
        )
    ),
    "vit": lambda: ViTForImageClassification(
        ViTConfig(image_size=16, patch_size=4, num_labels=5, **wide)
    ),
}

for name in sys.argv[1:] or models:
    torch.manual_seed(0)
    model = models[name]().eval()
    inputs = {"pixel_values": images} if name == "vit" else {"input_ids": ids}
    labels = torch.tensor([1, 3]) if name == "vit" else ids
    result = model(**inputs, labels=labels)
    result.loss.backward()
    norm = sum(p.grad.square().sum() for p in model.parameters() if p.grad is not None).sqrt()
    print(name, "loss", result.loss.item(), "logits", result.logits.abs().sum().item())
    print(name, "gradient", norm.item())

    model.train()
    torch.manual_seed(1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(**inputs, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    print(name, "trained", loss.item())

    model.eval()
    if name in ("gpt2", "llama", "t5"):
        options = {"max_new_tokens": 6, "pad_token_id": 0, "eos_token_id": None}
        print(name, "greedy", model.generate(ids, do_sample=False, **options).tolist())
        print(name, "beams", model.generate(ids, num_beams=2, **options).tolist())
        torch.manual_seed(2)
        print(name, "sampled", model.generate(ids, do_sample=True, top_k=9, **options).tolist())

    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        again = type(model).from_pretrained(folder).eval()
    with torch.no_grad():
        print(
            name,
            "again",
            torch.equal(
                again(**inputs, labels=labels).logits, model(**inputs, labels=labels).logits
            ),
        )

torch.manual_seed(0)
rows = torch.arange(8 * 12).reshape(8, 12) * 7 % 97
data = [{"input_ids": row, "labels": row} for row in rows]
model = models["gpt2"]()
for optimizer in ("adamw_torch", "adafactor", "sgd"):
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, per_device_train_batch_size=2, num_train_epochs=2, report_to=[], use_cpu=True,
            disable_tqdm=True, logging_strategy="no", save_steps=2, optim=optimizer, warmup_steps=2,
            lr_scheduler_type="cosine", gradient_accumulation_steps=2, max_grad_norm=0.5,
            gradient_checkpointing=optimizer == "sgd",
        )  # fmt: skip
        trainer = Trainer(model, arguments, train_dataset=data, eval_dataset=data)
        trainer.remove_callback(PrinterCallback)  # which prints times
        print(optimizer, trainer.train().training_loss, trainer.evaluate()["eval_loss"])
        arguments.num_train_epochs = 3
        again = Trainer(model, arguments, train_dataset=data)
        again.remove_callback(PrinterCallback)
        print(optimizer, "resumed", again.train(resume_from_checkpoint=True).global_step)
