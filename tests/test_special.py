"""Special functions over their whole domain, against values computed with 40 digits."""

import math

import numpy as np
import pytest

import rushlight as torch
from support import values

special = torch.special
INF, NAN = math.inf, math.nan
# (arguments..., value).
VALUES = {
    "bessel_j0": [
        (1e-08, 1.0),
        (0.3, 0.9776262465382961),
        (1.0, 0.7651976865579666),
        (2.5, -0.048383776468198),
        (5.9, 0.12203335459282277),
        (6.1, 0.1772914222427434),
        (7.9, 0.19436184484127825),
        (8.1, 0.14751745404437766),
        (15.0, -0.014224472826780772),
        (40.0, 0.00736689058423729),
        (300.0, -0.03329855487630567),
        (10000.0, -0.0070961603533888015),
    ],
    "bessel_j1": [
        (1e-08, 5e-09),
        (0.3, 0.148318816273104),
        (1.0, 0.4400505857449335),
        (2.5, 0.49709410246427405),
        (5.9, -0.2951424447290161),
        (6.1, -0.25586477255838314),
        (7.9, 0.2191793999217512),
        (8.1, 0.24760776698159287),
        (15.0, 0.20510403861352275),
        (40.0, 0.126038318037585),
        (300.0, -0.03188743137749995),
        (10000.0, 0.0036474507555295803),
    ],
    "bessel_y0": [
        (1e-08, -11.80077387717953),
        (0.3, -0.8072735778045195),
        (1.0, 0.08825696421567696),
        (2.5, 0.4980703596152319),
        (5.9, -0.3043659299971516),
        (6.1, -0.26943493043123845),
        (7.9, 0.20652094814437577),
        (8.1, 0.23809132870223482),
        (15.0, 0.20546429603891828),
        (40.0, 0.12593641705826092),
        (300.0, -0.0318318897300034),
        (10000.0, 0.0036478055589866058),
    ],
    "bessel_y1": [
        (1e-08, -63661977.236758195),
        (0.3, -2.2931051383885293),
        (1.0, -0.7812128213002887),
        (2.5, 0.1459181379667858),
        (5.9, -0.14807715253097906),
        (6.1, -0.19981220448930612),
        (7.9, -0.18172107728057313),
        (8.1, -0.13314879595249593),
        (15.0, 0.02107362803687351),
        (40.0, -0.005793505821549633),
        (300.0, 0.03324554812131022),
        (10000.0, 0.007096342752536495),
    ],
    "i0": [
        (1e-08, 1.0),
        (0.3, 1.022626879351597),
        (1.0, 1.2660658777520084),
        (2.5, 3.289839144050123),
        (7.9, 389.406283282158),
        (8.1, 469.5006067101215),
        (15.0, 339649.3732979139),
        (40.0, 1.48947747934199e16),
        (300.0, 4.475847367935052e128),
        (-5.5, 42.69464515184779),
        (705.0, 2.2620505526554727e304),
    ],
    "i1": [
        (1e-08, 5e-09),
        (0.3, 0.15169384000359276),
        (1.0, 0.565159103992485),
        (2.5, 2.5167162452886984),
        (7.9, 363.8539440845084),
        (8.1, 439.48430891035844),
        (15.0, 328124.9219702064),
        (40.0, 1.4707396163259352e16),
        (300.0, 4.468381385036955e128),
        (-5.5, -38.58816461632739),
        (705.0, 2.260445691777057e304),
    ],
    "i0e": [
        (1e-08, 0.9999999900000001),
        (0.3, 0.7575806251825479),
        (1.0, 0.46575960759364043),
        (2.5, 0.27004644161220276),
        (7.9, 0.14436986414104191),
        (8.1, 0.14251180948829528),
        (15.0, 0.10389953144882272),
        (40.0, 0.06327827987523534),
        (300.0, 0.02304255841508546),
        (-5.5, 0.17448325638192988),
        (10000.0, 0.003989472674604732),
    ],
    "i1e": [
        (1e-08, 4.99999995e-09),
        (0.3, 0.1123775606398388),
        (1.0, 0.20791041534970844),
        (2.5, 0.20658464953126657),
        (7.9, 0.13489649943989376),
        (8.1, 0.13340068832583662),
        (15.0, 0.10037417504516666),
        (40.0, 0.062482229074442064),
        (300.0, 0.02300412204026895),
        (-5.5, -0.15770100901675652),
        (10000.0, 0.003989273195983662),
    ],
    "modified_bessel_k0": [
        (1e-08, 18.536612259610777),
        (0.3, 1.3724600605442974),
        (1.0, 0.42102443824070834),
        (1.5, 0.21380556264752573),
        (2.5, 0.06234755320036619),
        (5.9, 0.0013860050073049466),
        (6.1, 0.001116678739880755),
        (40.0, 8.392861100099567e-19),
        (300.0, 3.7236948548891435e-132),
    ],
    "modified_bessel_k1": [
        (1e-08, 99999999.9999999),
        (0.3, 3.055992033457325),
        (1.0, 0.6019072301972346),
        (1.5, 0.2773878004568438),
        (2.5, 0.07389081634774707),
        (5.9, 0.0014991618997224848),
        (6.1, 0.001204954303313721),
        (40.0, 8.497131954861039e-19),
        (300.0, 3.7298958583323724e-132),
    ],
    "scaled_modified_bessel_k0": [
        (1e-08, 18.536612444976903),
        (0.3, 1.8526273007720142),
        (1.0, 1.144463079806895),
        (1.5, 0.9582100532948965),
        (2.5, 0.7595486903280996),
        (5.9, 0.5059437583152644),
        (6.1, 0.49787989286178824),
        (40.0, 0.19755558495729816),
        (300.0, 0.0723300317396073),
    ],
    "scaled_modified_bessel_k1": [
        (1e-08, 100000000.99999991),
        (0.3, 4.12515776224447),
        (1.0, 1.6361534862632583),
        (1.5, 1.243165873552553),
        (2.5, 0.900174423907878),
        (5.9, 0.547250263794872),
        (6.1, 0.5372382387267882),
        (40.0, 0.20000996725443349),
        (300.0, 0.07245048166725841),
    ],
    "airy_ai": [
        (-1000.0, 0.05597189577301992),
        (-30.0, -0.08796818845684216),
        (-5.1, 0.3095259962873177),
        (-4.4, 0.23370325807316336),
        (-1.0, 0.5355608832923521),
        (0.0, 0.3550280538878172),
        (0.5, 0.23169360648083348),
        (1.9, 0.0405944200315295),
        (2.1, 0.029952602115866523),
        (5.0, 0.00010834442813607442),
        (20.0, 1.6916728686705404e-27),
        (100.0, 2.6344821520881846e-291),
    ],
    "spherical_bessel_j0": [
        (1e-09, 1.0),
        (0.4, 0.9735458557716262),
        (3.0, 0.04704000268662241),
        (100000.0, 3.574879797201651e-07),
    ],
    "erfcx": [
        (-26.0, 7.657724931490568e293),
        (-3.0, 16205.988853999586),
        (-0.1, 1.1236433541992095),
        (0.0, 1.0),
        (0.9, 0.456531651323117),
        (1.1, 0.4017304606364951),
        (2.9, 0.18460182595559083),
        (3.1, 0.17371840860540824),
        (10.0, 0.05614099274382259),
        (1000.0, 0.0005641893014533876),
        (10000000000.0, 5.641895835477563e-11),
    ],
    "ndtr": [
        (-37.0, 5.725571222524577e-300),
        (-12.5, 3.732564298877713e-36),
        (-1.1, 0.13566606094638264),
        (-0.9, 0.18406012534675947),
        (0.0, 0.5),
        (1e-09, 0.5000000003989423),
        (3.0, 0.9986501019683699),
        (9.0, 1.0),
    ],
    "log_ndtr": [
        (-37.0, -689.0305855768906),
        (-12.5, -81.57596787074388),
        (-1.1, -1.997558846986297),
        (-0.9, -1.6924928065613383),
        (0.0, -0.6931471805599453),
        (3.0, -0.0013508099647481938),
        (9.0, -1.1285884059538405e-19),
        (20.0, -2.7536241186062337e-89),
    ],
    "ndtri": [
        (1e-305, -37.3563460930671),
        (1e-20, -9.262340089798407),
        (0.01, -2.326347874040841),
        (0.24, -0.7063025628400875),
        (0.26, -0.643345405392917),
        (0.4999999, -2.5066282747031063e-07),
        (0.75, 0.6744897501960817),
        (0.999, 3.090232306167813),
    ],
    "gammaln": [
        (5e-324, 744.4400719213812),
        (1e-10, 23.025850929882736),
        (0.3, 1.0957979948180756),
        (0.59, 0.4138235411795305),
        (0.61, 0.38300783543906425),
        (0.999999999, 5.77215649399226e-10),
        (1.000000000001, -5.772669797094564e-13),
        (1.39, -0.1189476352797241),
        (1.41, -0.1201756558890367),
        (1.99999999, -4.227843293043373e-09),
        (2.000000001, 4.2278437040226697e-10),
        (2.49, 0.2776758614151702),
        (2.6, 0.35741186354897986),
        (3.49, 1.1899585718917864),
        (3.6, 1.3129233085764163),
        (4.49, 2.4398603081061223),
        (4.6, 2.59385715403848),
        (7.7, 7.926541356269005),
        (30.0, 71.25703896716801),
        (10000000000.0, 220258509288.81058),
        (1e300, 6.897755278982137e302),
        (-0.3, 1.4648400508576025),
        (-2.4570247382208006, 5.619192358950097e-17),
    ],
    "digamma": [
        (-7.3, 4.33730730551005),
        (-1.3, 2.8825405488661673),
        (1e-06, -1000000.5772140201),
        (0.5, -1.9635100260214235),
        (1.0, -0.5772156649015329),
        (2.5, 0.7031566406452432),
        (9.9, 2.2411803166063815),
        (10.1, 2.262214357094148),
        (1000000.0, 13.815510057964191),
    ],
    "zeta": [
        (1.001, 0.5, 1001.9648639703559),
        (1.5, 0.001, 31625.386966911912),
        (2.0, 1.0, 1.6449340668482264),
        (4.5, 30.0, 2.047517721935241e-06),
        (30.0, 0.7, 44366.870862485186),
        (3.0, 2000.0, 1.250625156249987e-07),
    ],
    "gammainc": [
        (0.001, 0.001, 0.9936876467088603),
        (0.2, 0.1, 0.6760432038153432),
        (0.2, 1.4, 0.9708130865883714),
        (0.5, 5.0, 0.9984345977419975),
        (3.0, 1.0, 0.08030139707139419),
        (3.0, 9.0, 0.9937678048936227),
        (30.0, 25.0, 0.18210391597745512),
        (30.0, 45.0, 0.9926628007022035),
        (300.0, 310.0, 0.7224887541718611),
        (5000.0, 5100.0, 0.9206711189223811),
    ],
    "gammaincc": [
        (0.001, 0.001, 0.00631235329113971),
        (0.2, 0.1, 0.3239567961846568),
        (0.2, 1.4, 0.029186913411628584),
        (0.5, 5.0, 0.0015654022580025497),
        (3.0, 1.0, 0.9196986029286058),
        (3.0, 9.0, 0.006232195106377317),
        (30.0, 25.0, 0.8178960840225449),
        (30.0, 45.0, 0.007337199297796504),
        (300.0, 310.0, 0.2775112458281389),
        (5000.0, 5100.0, 0.07932888107761897),
    ],
}
SLOPES = {
    "in a": [
        (0.2, 0.1, -1.4075782456667907),
        (0.5, 5.0, -0.005843362259135279),
        (3.0, 1.0, -0.10645935294394226),
        (3.0, 9.0, -0.008695466419742526),
        (30.0, 25.0, -0.049954877425834855),
        (30.0, 45.0, -0.0034741570951297633),
    ],
    "in a twice": [
        (0.2, 0.1, 2.1489836071470254),
        (0.5, 5.0, -0.014118652062112621),
        (3.0, 1.0, 0.1211325230272978),
        (3.0, 9.0, -0.00974314425983431),
        (30.0, 25.0, 0.009137883116240923),
        (30.0, 45.0, -0.0014122483428958034),
    ],
    "in s": [
        (1.5, 0.3, 3.292037761731204),
        (2.0, 1.0, -0.9375482543158438),
        (4.5, 30.0, -7.515387402949291e-06),
    ],
    "in s twice": [
        (1.5, 0.3, 24.819844614385932),
        (2.0, 1.0, 1.989280234298901),
        (4.5, 30.0, 2.77520813353386e-05),
    ],
}


def tensors(rows):
    *arguments, expected = np.array(rows).T
    return [torch.tensor(a, requires_grad=True) for a in arguments], expected


@pytest.mark.parametrize("name", VALUES)
def test_a_few_units_in_the_last_place(name):
    arguments, expected = tensors(VALUES[name])
    actual = values(getattr(special, name)(*arguments))
    # A parameter's own rounding counts as often as the function is steep in it.
    units = 200 if name.startswith("gammainc") else 20
    scale = np.abs(expected)
    if name.startswith(("bessel", "airy")):  # near a zero: of the amplitude there
        scale = np.maximum(scale, 0.3 / np.sqrt(np.maximum(np.abs(values(arguments[0])), 1)))
    assert np.max(np.abs(actual - expected) / scale) < units * 2.0**-52


@pytest.mark.parametrize("name", VALUES)
def test_floats_are_rounded_doubles(name):
    arguments, _ = tensors(VALUES[name])
    single = [a.detach().float() for a in arguments]
    wide = values(getattr(special, name)(*[a.double() for a in single]))
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(
            values(getattr(special, name)(*single)), wide.astype(np.float32), rtol=3e-7, atol=1e-44
        )


def test_lgamma_of_floats():
    x = torch.linspace(-9.9, 30, 4001)
    expected = values(torch.lgamma(x.double()))
    np.testing.assert_allclose(values(torch.lgamma(x)), expected, rtol=3e-7)
    assert torch.lgamma(torch.tensor([1.0, 2.0])).tolist() == [0, 0]
    ends = torch.tensor([0.0, -0.0, -3.0, INF, -INF, NAN])
    np.testing.assert_array_equal(values(torch.lgamma(ends)), [INF] * 5 + [NAN])


def test_bessel_functions_of_large_numbers():
    x = torch.tensor([1e10, 3e38, 1e300, INF], dtype=torch.float64)
    expected = [-7.676508175684158e-06, -3.333565836180375e-20, -1.3681360450342481e-151, 0]
    np.testing.assert_allclose(values(special.bessel_j1(x)), expected, rtol=1e-14)
    assert special.bessel_y0(x)[-1] == 0


def test_a_result_does_not_depend_on_its_neighbours():
    """Lanes of a vector stop where each of them has converged."""
    torch.manual_seed(0)
    a, x = 40 * torch.rand(2, 200, dtype=torch.float64)
    for function in (special.gammainc, special.gammaincc):
        alone = [function(a[i], x[i]).item() for i in range(200)]
        assert function(a, x).tolist() == alone


@pytest.mark.parametrize(
    ("function", "which", "label"),
    [(special.gammainc, 0, "in a"), (special.zeta, 0, "in s")],
)
def test_derivatives_in_the_parameter(function, which, label):
    arguments, expected = tensors(SLOPES[label])
    (first,) = torch.autograd.grad(function(*arguments).sum(), arguments[which], create_graph=True)
    np.testing.assert_allclose(values(first), expected, rtol=1e-12)
    (second,) = torch.autograd.grad(first.sum(), arguments[which])
    np.testing.assert_allclose(values(second), tensors(SLOPES[f"{label} twice"])[1], rtol=1e-11)


def test_derivatives_at_zero_are_right_to_every_order():
    """The coefficients of the power series of I1, J1 and of Airy's function."""
    expected = {
        special.bessel_j1: [0, 1 / 2, 0, -3 / 8, 0, 5 / 16],
        special.i1: [0, 1 / 2, 0, 3 / 8, 0, 5 / 16],
        special.spherical_bessel_j0: [1, 0, -1 / 3, 0, 1 / 5, 0],
    }
    for function, derivatives in expected.items():
        x = torch.tensor(0.0, dtype=torch.float64, requires_grad=True)
        y = function(x)
        for order, value in enumerate(derivatives):
            assert y.item() == pytest.approx(value, abs=1e-13), (function, order)
            if y.requires_grad and order < 5:
                (y,) = torch.autograd.grad(y, x, create_graph=True)


@pytest.mark.parametrize("kind", ["t", "u", "v", "w"])
def test_polynomials_of_high_degree_agree_with_their_recurrence(kind):
    f = getattr(special, f"chebyshev_polynomial_{kind}")
    x = torch.linspace(-1, 1, 41, dtype=torch.float64)
    for n in (7, 20, 51):
        assert torch.allclose(f(x, n + 1), 2 * x * f(x, n) - f(x, n - 1), atol=1e-11)


def test_degrees_are_tensors_or_numbers_and_are_cut():
    x = torch.tensor([0.5, 2.0])
    assert special.legendre_polynomial_p(x, torch.tensor([1, 2])).tolist() == [0.5, 5.5]
    assert special.legendre_polynomial_p(x, 2.9).tolist() == [-0.125, 5.5]
    assert special.legendre_polynomial_p(0.5, torch.tensor([0.0, -1.0])).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("bessel_y0", [0.0, -1.0], [-INF, NAN]),
        (
            "gammaln",
            [0.0, -0.0, -3.0, 1.0, 2.0, INF, -INF, NAN],
            [INF] * 3 + [0, 0] + [INF] * 2 + [NAN],
        ),
        ("modified_bessel_k0", [0.0, -1.0, INF], [INF, NAN, 0.0]),
        ("modified_bessel_k1", [0.0, 5e-324, -1.0, INF, NAN], [INF, INF, NAN, 0.0, NAN]),
        ("scaled_modified_bessel_k1", [0.0, -1.0, INF], [INF, NAN, 0.0]),
        ("i0", [INF, -INF, NAN], [INF, INF, NAN]),
        ("i1", [INF, -INF, -0.0], [INF, -INF, 0.0]),
        ("i0e", [INF, -INF, NAN], [0.0, 0.0, NAN]),
        ("airy_ai", [INF, -INF, NAN], [0.0, 0.0, NAN]),
        ("erfcx", [INF, -INF, NAN], [0.0, INF, NAN]),
        ("ndtri", [0.0, 1.0, 0.5, -0.1, 1.1], [-INF, INF, 0.0, NAN, NAN]),
        ("log_ndtr", [INF, -INF, NAN], [0.0, -INF, NAN]),
        ("entr", [0.0, -1.0, 1.0, NAN, INF], [0.0, -INF, 0.0, NAN, -INF]),
        ("spherical_bessel_j0", [0.0, INF, NAN], [1.0, 0.0, NAN]),
    ],
)
def test_at_the_ends(name, arguments, expected):
    x = torch.tensor(arguments, dtype=torch.float64)
    np.testing.assert_array_equal(values(getattr(special, name)(x)), expected)


def test_incomplete_gamma_at_the_ends():
    a = torch.tensor([0.0, 0.0, 2.0, 2.0, -1.0, 2.0, INF], dtype=torch.float64)
    x = torch.tensor([0.0, 1.0, 0.0, INF, 1.0, -1.0, 1.0], dtype=torch.float64)
    np.testing.assert_array_equal(values(torch.igamma(a, x)), [NAN, 1, 0, 1, NAN, NAN, 0])
    np.testing.assert_array_equal(values(torch.igammac(a, x)), [NAN, 0, 1, 0, NAN, NAN, 1])


def test_zeta_below_its_pole():
    s = torch.tensor([1.0, 0.5, 2.0, 2.0, 2.5], dtype=torch.float64)
    q = torch.tensor([1.0, 1.0, -1.0, -0.5, -0.5], dtype=torch.float64)
    expected = [INF, NAN, INF, 4 + math.pi**2 / 2, NAN]
    np.testing.assert_allclose(values(special.zeta(s, q)), expected)
    # Elements that cancel, one that is huge, and polygamma, which has the sign of the sum.
    s = torch.tensor([2.0, 3.0, 2.0, 3.0, 7.0], dtype=torch.float64)
    q = torch.tensor([-0.5, -1e-20, -3.25, -2.5, -63.5], dtype=torch.float64)
    expected = [
        8.934802200544679,
        -1e60,
        19.474085068082154,
        0.0541020258208637,
        2.424283527454e-12,
    ]
    np.testing.assert_allclose(values(special.zeta(s, q)), expected, rtol=2e-11)
    signs = np.array([1, -2, 1, -2, -720])
    for order, x, value, sign in zip((s - 1).long().tolist(), q, expected, signs, strict=True):
        np.testing.assert_allclose(torch.polygamma(order, x).item(), sign * value, rtol=2e-11)


def test_mvlgamma_takes_a_positive_order():
    x = torch.tensor([2.0, 3.0])
    assert torch.allclose(torch.mvlgamma(x, 1), torch.lgamma(x))
    assert torch.equal(special.multigammaln(x, 2), x.mvlgamma(2))
    with pytest.raises(RuntimeError, match="p has to be greater than or equal to 1, got 0"):
        torch.mvlgamma(x, 0)
