"""pytorch-lightning: fit, validate, a checkpoint, and a run that is resumed from it."""

import logging
import tempfile
import warnings

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint

warnings.simplefilter("ignore")
logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)


class Net(pl.LightningModule):
    def __init__(self, width=8):
        super().__init__()
        self.save_hyperparameters()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(4, width), torch.nn.Tanh(), torch.nn.Linear(width, 1)
        )

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, index):
        loss = torch.nn.functional.mse_loss(self(batch[0]), batch[1])
        self.log("train", loss)
        return loss

    def validation_step(self, batch, index):
        self.log("valid", torch.nn.functional.mse_loss(self(batch[0]), batch[1]))

    def predict_step(self, batch, index):
        return self(batch[0])

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)]


def trainer(folder, epochs, **options):
    return pl.Trainer(
        max_epochs=epochs, accelerator="cpu", default_root_dir=folder, logger=False,
        enable_progress_bar=False, enable_model_summary=False,
        callbacks=[ModelCheckpoint(dirpath=folder, save_last=True)], **options,
    )  # fmt: skip


pl.seed_everything(0)
data = torch.utils.data.TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
train = torch.utils.data.DataLoader(data, batch_size=16)
valid = torch.utils.data.DataLoader(data, batch_size=32)
with tempfile.TemporaryDirectory() as folder:
    model = Net()
    first = trainer(folder, 2, gradient_clip_val=1.0)
    first.fit(model, train, valid)
    print("fit", {k: v.item() for k, v in sorted(first.callback_metrics.items())})
    again = Net()
    second = trainer(folder, 4)
    second.fit(again, train, valid, ckpt_path=f"{folder}/last.ckpt")
    print("resumed", second.current_epoch, second.global_step)
    print("metrics", {k: v.item() for k, v in sorted(second.callback_metrics.items())})
    loaded = Net.load_from_checkpoint(f"{folder}/last.ckpt", weights_only=False)
    print("loaded", loaded.hparams.width, loaded(data.tensors[0][:2]).flatten().tolist())
    print("predicted", sum(p.sum().item() for p in second.predict(again, valid)))
