"""Samples of the Fourier transforms."""

from samples import Maker, floating, sample, samples


def along_one(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(8))
    yield sample(make(1))
    yield sample(make(2, 7), dim=0)
    yield sample(make(2, 3, 4), norm="ortho")
    yield sample(make.transposed(3, 6), n=5, norm="forward")
    yield sample(make.strided(2, 5), 9, -1, "backward")
    yield sample(make(3, 37))


def along_two(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(4, 6))
    yield sample(make(2, 3, 5), norm="ortho")
    yield sample(make(4, 3, 2), s=(3, 4), dim=(0, 2), norm="forward")
    yield sample(make.transposed(5, 4), (6, 3))


def along_several(dtype, seed):
    yield from along_two(dtype, seed)
    make = Maker(dtype, seed)
    yield sample(make(2, 3, 4))
    yield sample(make(5), dim=0)
    yield sample(make(2, 3, 4), dim=(2, 0, 1))


for name in ("fft", "ifft", "rfft", "ihfft"):
    samples(f"fft.{name}")(floating(along_one))
    samples(f"fft.{name}2")(floating(along_two))
    samples(f"fft.{name}n")(floating(along_several))


@floating
def of_halves(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(5))
    yield sample(make(2, 4), 7)
    yield sample(make(4, 2), dim=0, norm="ortho")
    yield sample(make.transposed(3, 5), n=8, norm="forward")


@floating
def of_halves_in_two(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(4, 3))
    yield sample(make(2, 3, 5), s=(3, 7), norm="ortho")
    yield sample(make(4, 3, 3), dim=(0, 2), norm="forward")


for name in ("irfft", "hfft"):
    samples(f"fft.{name}")(of_halves)
    samples(f"fft.{name}2", f"fft.{name}n")(of_halves_in_two)


@samples("fft.fftshift", "fft.ifftshift")
@floating
def shifts(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(5))
    yield sample(make(4, 3))
    yield sample(make(2, 3, 5), (0, 2))
    yield sample(make.transposed(4, 6), -1)
    yield sample(make(0))
    yield sample(make())
