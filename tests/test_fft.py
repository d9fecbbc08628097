"""Fourier transforms: every size, both precisions, laws of the transform."""

import numpy as np
import pytest

import rushlight as torch
from support import values

SIZES = [*range(1, 34), 37, 64, 97, 100, 128, 210, 243, 256, 360, 512, 997, 1000, 1024, 2048, 2187]


def draw(*shape, dtype=np.complex128):
    random = np.random.default_rng(len(shape) + shape[-1])
    return (random.standard_normal(shape) + 1j * random.standard_normal(shape)).astype(dtype)


def error(actual, expected):
    return np.max(np.abs(values(actual) - expected)) / np.max(np.abs(expected))


@pytest.mark.parametrize(("dtype", "limit"), [(np.complex64, 3e-6), (np.complex128, 8e-15)])
@pytest.mark.parametrize("rows", [1, 3, 20])
def test_every_size_has_the_definitions_values(rows, dtype, limit):
    for n in SIZES:
        x = draw(rows, n, dtype=dtype)
        wide = x.astype(np.complex128)
        t = torch.tensor(x)
        assert error(torch.fft.fft(t), np.fft.fft(wide)) < limit, n
        assert error(torch.fft.ifft(t), np.fft.ifft(wide)) < limit, n
        columns = torch.tensor(np.ascontiguousarray(x.T))
        assert error(torch.fft.fft(columns, dim=0), np.fft.fft(wide.T, axis=0)) < limit, n
        real = torch.tensor(np.ascontiguousarray(x.real))
        spectrum = np.fft.rfft(wide.real)
        assert error(torch.fft.rfft(real), spectrum) < limit, n
        halves = torch.tensor(spectrum.astype(dtype))
        assert error(torch.fft.irfft(halves, n), wide.real) < limit, n


@pytest.mark.parametrize("n", [4096, 5000, 8192, 65537, 1 << 17])
def test_long_lines(n):
    x = draw(2, n)
    assert error(torch.fft.fft(torch.tensor(x)), np.fft.fft(x)) < 1e-14
    r = np.ascontiguousarray(x.real)
    assert error(torch.fft.rfft(torch.tensor(r)), np.fft.rfft(r)) < 1e-14
    assert error(torch.fft.irfft(torch.fft.rfft(torch.tensor(r)), n), r) < 1e-14


def test_threads_change_nothing():
    x = torch.tensor(draw(70, 360))
    before = torch.get_num_threads()
    results = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        results.append(values(torch.fft.fft2(x)))
    torch.set_num_threads(before)
    np.testing.assert_array_equal(*results)


def test_imaginary_parts_that_a_real_signal_has_not_do_not_count():
    x = torch.tensor([1 + 5j, 2 + 1j, 3 + 7j])
    y = torch.tensor([1 + 0j, 2 + 1j, 3 + 0j])
    assert torch.equal(torch.fft.irfft(x), torch.fft.irfft(y))


def test_nothing_is_transformed_where_there_is_nothing():
    assert torch.fft.fft(torch.zeros(0, 4)).shape == (0, 4)
    assert torch.fft.rfft(torch.zeros(3, 0, 4)).shape == (3, 0, 3)
    with pytest.raises(RuntimeError, match=r"Invalid number of data points \(0\) specified"):
        torch.fft.fft(torch.zeros(3, 0))


def test_shapes_are_known_without_elements():
    x = torch.empty(3, 10, device="meta")
    assert torch.fft.rfft2(x).shape == (3, 6)
    assert torch.fft.irfft(torch.fft.rfft(x)).shape == (3, 10)


def test_halves_are_refused_with_advice():
    with pytest.raises(RuntimeError, match="Unsupported dtype float16: convert the input"):
        torch.fft.fft(torch.zeros(4, dtype=torch.float16))


def test_a_signal_comes_back_from_its_short_time_transform():
    x = torch.tensor(np.cos(np.arange(200.0)))
    window = torch.hann_window(16, dtype=torch.float64)
    spectra = torch.stft(x, 16, hop_length=4, window=window, return_complex=True)
    back = torch.istft(spectra, 16, hop_length=4, window=window, length=200)
    assert torch.allclose(back, x, atol=1e-12)


def test_a_window_that_leaves_gaps_determines_no_signal():
    spectra = torch.zeros(5, 4, dtype=torch.complex64)
    with pytest.raises(RuntimeError, match="window overlap add min"):
        torch.istft(spectra, 8, hop_length=8, window=torch.zeros(8), center=False)
