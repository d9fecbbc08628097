"""The training steps of the examples, recorded and run again, are the eager ones bit for bit."""

import copy

import pytest

import rushlight as torch
from rushlight import nn
from rushlight._program import record
from rushlight.nn import functional as F
from test_examples import example
from test_program import same

PICTURES = [(torch.rand(8, 1, 8, 8), torch.randint(0, 10, (8,))) for _ in range(3)]


def cross_entropy(model, images, labels):
    return F.cross_entropy(model(images), labels)


def digits_classifier(module):
    return module.Classifier(16), cross_entropy, PICTURES


def lenet(module):
    batches = [(torch.rand(4, 1, 16, 16), torch.randint(0, 10, (4,))) for _ in range(3)]
    return module.LeNet(), cross_entropy, batches


def quantisation(module):
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))
    return module.quantise(model, 2), cross_entropy, PICTURES


def gradient_accumulation(module):
    def loss(model, images, labels):
        total = 0
        for x, y in zip(images.split(4), labels.split(4), strict=True):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                total = total + F.cross_entropy(model(x), y) / 2
        return total

    return nn.Sequential(nn.Flatten(), module.new_model()), loss, PICTURES


def char_gpt(module):
    model = module.GPT(12, length=8, width=16, heads=2, layers=1)
    batches = [(torch.randint(0, 12, (2, 8)), torch.randint(0, 12, (2, 8))) for _ in range(3)]
    return model, lambda m, x, y: F.cross_entropy(m(x).flatten(0, 1), y.flatten()), batches


def lstm_language_model(module):
    words = len(module.VOCABULARY)
    batches = [tuple(torch.randint(0, words, (2, 2, 6)).unbind()) for _ in range(3)]

    def loss(model, x, y):
        return F.cross_entropy(model(x)[0].flatten(0, 1), y.flatten())

    return module.LanguageModel(16), loss, batches


def vae(module):
    batches = [(torch.rand(4, 64).round(),) for _ in range(3)]
    return module.VAE(16, 4), lambda m, x: module.bound(m, x)[0], batches


def maml(module):
    batches = [(*module.points(module.waves(3)), *module.points(module.waves(3))) for _ in range(3)]

    def loss(model, x, y, fresh_x, fresh_y):
        weights = module.adapted(model, model.weights(3), x, y, 2)
        return module.losses(model, weights, fresh_x, fresh_y).mean()

    return module.Regressor(8), loss, batches


def neural_ode(module):
    def loss(field, x, y):
        end = module.Adjoint.apply(field, 0.2, 2, x, *field.parameters())
        return (end - y).square().mean()

    return module.Field(8), loss, [(torch.randn(5, 2), torch.randn(5, 2)) for _ in range(3)]


def gradient_penalty(module):
    def loss(critic, real, fake):
        penalty = module.gradient_penalty(critic, real, fake)
        return critic(fake).mean() - critic(real).mean() + 2 * penalty

    batches = [(torch.randn(6, 2), torch.randn(6, 2)) for _ in range(3)]
    return module.perceptron(2, 1, hidden=16), loss, batches


def checkpointed_transformer(module):
    model = module.Encoder(width=16, heads=2, layers=2, length=6, keep="inputs")
    batches = [(torch.randn(2, 6, 16), torch.randn(2, 6, 16)) for _ in range(3)]
    return model, lambda m, x, y: F.mse_loss(m(x), y), batches


def policy_gradient(module):
    """Its update on whole runs: which carts still stand would say how much there is to learn."""

    def loss(policy, states, actions, rewards):
        logits, forecast = policy(states)
        chosen = F.log_softmax(logits, dim=-1).gather(-1, actions.unsqueeze(-1)).squeeze(-1)
        target = module.returns(rewards)
        return F.mse_loss(forecast, target) - (chosen * (target - forecast.detach())).mean()

    batches = [
        (torch.randn(5, 3, 4), torch.randint(0, 2, (5, 3)), torch.rand(5, 3)) for _ in range(3)
    ]
    return module.Policy(8), loss, batches


def losses(model, loss, batches, recorded):
    """The losses of a step on each batch, then the parameters."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def step(*batch):
        optimizer.zero_grad()
        value = loss(model, *batch)
        value.backward()
        optimizer.step()
        return value

    torch.manual_seed(1)
    if recorded:
        program = record(step, *(t.clone() for t in batches[0]))
        found = [program.result.item(), *(program(*batch).item() for batch in batches[1:])]
    else:
        found = [step(*batch).item() for batch in batches]
    return found, [p.detach().clone() for p in model.parameters()]


MAKERS = [
    char_gpt, checkpointed_transformer, digits_classifier, gradient_accumulation, gradient_penalty,
    lenet, lstm_language_model, maml, neural_ode, policy_gradient, quantisation, vae,
]  # fmt: skip


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_the_steps_of_an_example(make):
    torch.manual_seed(0)
    model, loss, batches = make(example(make.__name__))
    eager, replayed = (
        losses(copy.deepcopy(model), loss, batches, recorded) for recorded in (False, True)
    )
    same(eager, replayed)
