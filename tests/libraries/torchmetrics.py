"""torchmetrics: classification, regression, text and image metrics, and collections."""

import torch
import torchmetrics as tm
from torchmetrics import functional as F

torch.manual_seed(0)
classes, probabilities = torch.randint(5, (64,)), torch.randn(64, 5).softmax(-1)
kinds = tm.MetricCollection(
    {
        "accuracy": tm.Accuracy(task="multiclass", num_classes=5),
        "f1": tm.F1Score(task="multiclass", num_classes=5, average="macro"),
        "auroc": tm.AUROC(task="multiclass", num_classes=5),
        "precision": tm.AveragePrecision(task="multiclass", num_classes=5),
        "kappa": tm.CohenKappa(task="multiclass", num_classes=5),
        "error": tm.CalibrationError(task="multiclass", num_classes=5),
    }
)
for part in range(4):
    rows = slice(16 * part, 16 * part + 16)
    kinds.update(probabilities[rows], classes[rows])
print({k: v.item() for k, v in kinds.compute().items()})
confusion = tm.ConfusionMatrix(task="multiclass", num_classes=5)
print("confusion", confusion(probabilities, classes).tolist())

x, y = torch.randn(50), torch.randn(50)
for metric in (
    tm.MeanSquaredError(), tm.MeanAbsoluteError(), tm.R2Score(), tm.PearsonCorrCoef(),
    tm.SpearmanCorrCoef(), tm.KendallRankCorrCoef(), tm.ExplainedVariance(),
    tm.CosineSimilarity(),
):  # fmt: skip
    pair = (x[None], y[None]) if isinstance(metric, tm.CosineSimilarity) else (x, y)
    print(type(metric).__name__, metric(*pair).item())

a, b = torch.rand(2, 3, 32, 32), torch.rand(2, 3, 32, 32)
print("ssim", F.structural_similarity_index_measure(a, b, data_range=1.0).item())
print("psnr", F.peak_signal_noise_ratio(a, b, data_range=1.0).item())
print("wer", F.word_error_rate(["a cat sat"], ["the cat sat"]).item())
print("perplexity", F.text.perplexity(torch.randn(2, 8, 5), torch.randint(5, (2, 8))).item())
mean = tm.MeanMetric()
mean.update(torch.tensor([1.0, 2.0]))
state = mean.state_dict(), mean.compute().item()
mean.reset()
print("mean", state[1])
