"""skorch: a classifier and a regressor in scikit-learn's pipelines and searches."""

import numpy as np
import torch
from sklearn.datasets import make_classification, make_regression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetClassifier, NeuralNetRegressor

torch.manual_seed(0)
X, y = make_classification(80, 6, random_state=0)
X, y = X.astype(np.float32), y.astype(np.int64)


class Net(torch.nn.Module):
    def __init__(self, width=8, out=2):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(6, width), torch.nn.ReLU(), torch.nn.Linear(width, out)
        )

    def forward(self, x):
        return self.net(x)


common = {"max_epochs": 4, "lr": 0.1, "verbose": 0, "iterator_train__shuffle": True}
net = NeuralNetClassifier(Net, criterion=torch.nn.CrossEntropyLoss, **common)
pipeline = make_pipeline(StandardScaler(), net).fit(X, y)
print("losses", net.history[:, "train_loss"], net.history[:, "valid_loss"])
print("score", pipeline.score(X, y), net.predict_proba(X[:2]).tolist())
torch.manual_seed(0)
search = GridSearchCV(
    NeuralNetClassifier(Net, criterion=torch.nn.CrossEntropyLoss, train_split=None, **common),
    {"module__width": [4, 8], "lr": [0.05, 0.1]}, cv=2, scoring="accuracy", refit=False,
)  # fmt: skip
print("search", search.fit(X, y).cv_results_["mean_test_score"].tolist())

X, y = make_regression(80, 6, random_state=0)
X, y = X.astype(np.float32), (y[:, None] / y.std()).astype(np.float32)
torch.manual_seed(0)
net = NeuralNetRegressor(Net, module__out=1, optimizer=torch.optim.Adam, **common).fit(X, y)
print("regression", net.history[:, "train_loss"], net.score(X, y))
