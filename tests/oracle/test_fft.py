"""Names of torch.fft, frequencies, short-time transforms and windows against PyTorch."""

import numpy as np
import pytest
import torch

import rushlight
from oracle.derivatives import assert_same_derivatives, normal


def test_every_name_is_there():
    public = {n for n in torch.fft.__all__ if n != "Tensor"}
    assert public <= set(rushlight.fft.__all__)
    assert set(torch.signal.windows.__all__) <= set(rushlight.signal.windows.__all__)


@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
@pytest.mark.parametrize("n", [1, 4, 5, 16])
def test_frequencies(name, n):
    ours, theirs = getattr(rushlight.fft, name), getattr(torch.fft, name)
    np.testing.assert_allclose(ours(n, 0.3).numpy(), theirs(n, 0.3).numpy(), rtol=1e-6)
    assert str(ours(n, dtype=rushlight.float64).dtype) == str(theirs(n, dtype=torch.float64).dtype)


@pytest.mark.parametrize(
    "options",
    [
        {"hop_length": 3}, {"normalized": True}, {"onesided": False}, {"center": False},
        {"win_length": 6}, {"pad_mode": "constant"},
    ],
)  # fmt: skip
def test_short_time_transforms_and_back(options):
    def forward(library, x, window):
        given = window[:6] if "win_length" in options else window
        y = library.stft(x, 8, window=given, return_complex=True, **options)
        return library.view_as_real(y)

    def back(library, x, window):
        given = window[:6] if "win_length" in options else window
        y = library.stft(x, 8, window=given, return_complex=True, **options)
        rest = {k: v for k, v in options.items() if k != "pad_mode"}
        return library.istft(y, 8, window=given, **rest)

    for function in (forward, back):
        assert_same_derivatives(function, normal(2, 41), 1 + 0.1 * normal(8))
        assert_same_derivatives(function, normal(33), 1 + 0.1 * normal(8))


WINDOWS = [n for n in torch.signal.windows.__all__ if n != "general_cosine"]


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("m", [0, 1, 2, 7, 8])
@pytest.mark.parametrize("sym", [True, False])
def test_windows(name, m, sym):
    ours, theirs = getattr(rushlight.signal.windows, name), getattr(torch.signal.windows, name)
    a = ours(m, sym=sym, dtype=rushlight.float64).numpy()
    np.testing.assert_allclose(a, theirs(m, sym=sym, dtype=torch.float64).numpy(), atol=1e-12)


@pytest.mark.parametrize("name", ["bartlett", "blackman", "hamming", "hann", "kaiser"])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 8])
@pytest.mark.parametrize("periodic", [True, False])
def test_windows_of_the_main_namespace(name, n, periodic):
    ours, theirs = getattr(rushlight, f"{name}_window"), getattr(torch, f"{name}_window")
    np.testing.assert_allclose(ours(n, periodic).numpy(), theirs(n, periodic).numpy(), atol=1e-6)


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.fft.fft(t.ones(4), 0),
        lambda t: t.fft.fft(t.ones(4), norm="other"),
        lambda t: t.fft.rfft(t.ones(4, dtype=t.complex64)),
        lambda t: t.fft.fftn(t.ones(4), dim=(0, 0)),
        lambda t: t.fft.fftn(t.ones(4), s=(2, 2)),
        lambda t: t.fft.fft2(t.ones(4)),
        lambda t: t.fft.irfft(t.ones(1)),
        lambda t: t.fft.fft(t.ones(())),
        lambda t: t.stft(t.ones(8), 4),
        lambda t: t.stft(t.ones(2), 40, center=False, return_complex=True),
        lambda t: t.istft(t.ones(3, 5), 4),
    ],
)
def test_wrong_calls_raise_as_pytorch_does(call):
    with pytest.raises((RuntimeError, IndexError)) as theirs:
        call(torch)
    with pytest.raises(theirs.type):
        call(rushlight)
