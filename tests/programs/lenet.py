"""LeNet on small synthetic pictures: convolutions, pooling, batch norm, step schedule."""

import torch
from torch import nn, optim
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, Dataset


class Shapes(Dataset):
    """Squares, crosses and stripes on noise."""

    def __init__(self, n, transform=None):
        self.images = 0.3 * torch.randn(n, 1, 16, 16)
        self.labels = torch.arange(n) % 3
        for image, label in zip(self.images, self.labels):
            row, col = (int(v) for v in torch.randint(2, 8, (2,)))
            if label == 0:
                image[0, row : row + 6, col : col + 6] += 1.0
            elif label == 1:
                image[0, row + 3, col : col + 6] += 1.5
                image[0, row : row + 6, col + 3] += 1.5
            else:
                image[0, row : row + 6 : 2, :] += 1.0
        self.transform = transform

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        image = self.images[index]
        if self.transform is not None:
            image = self.transform(image)
        return image, self.labels[index]


class LeNet(nn.Module):
    def __init__(self):
        super(LeNet, self).__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 6, kernel_size=3, padding=1),
            nn.BatchNorm2d(6),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2, 2),
            nn.Conv2d(6, 16, 3),
            nn.ReLU(inplace=True),
            nn.AvgPool2d(2),
        )
        self.classifier = nn.Sequential(
            nn.Flatten(),
            nn.Linear(16 * 3 * 3, 32),
            nn.Tanh(),
            nn.Linear(32, 3),
        )

    def forward(self, x):
        return self.classifier(self.features(x))


def train(model, loader, criterion, optimizer):
    model.train()
    total = 0.0
    for images, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    correct = 0
    for images, labels in loader:
        _, predicted = torch.max(model(images), 1)
        correct += (predicted == labels).sum().item()
    return correct / len(loader.dataset)


torch.manual_seed(7)
train_loader = DataLoader(Shapes(96, lambda x: (x - 0.1) / 0.5), batch_size=16, shuffle=True)
test_loader = DataLoader(Shapes(48, lambda x: (x - 0.1) / 0.5), batch_size=48)
net = LeNet()
optimizer = optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
scheduler = lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
criterion = nn.CrossEntropyLoss()
for epoch in range(4):
    loss = train(net, train_loader, criterion, optimizer)
    accuracy = evaluate(net, test_loader)
    lr = scheduler.get_last_lr()[0]
    scheduler.step()
    print(f"Epoch {epoch}: loss {loss:.5f}, accuracy {accuracy:.4f}, lr {lr:.4f}")
print("running mean:", net.features[1].running_mean)
