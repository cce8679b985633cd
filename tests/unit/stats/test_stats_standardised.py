"""A change at a fixed mix."""

import numpy as np
import pytest

from soak.stats import Stratum, standardised_change


def test_a_changed_mix_is_no_change() -> None:
    """Pooled acceptance falls from 0.74 to 0.26 because more of the hard stratum comes; each stays as it is."""
    strata = [Stratum(0, (720, 800), (180, 200)), Stratum(1, (20, 200), (80, 800))]
    found = standardised_change(strata)
    assert found is not None
    assert found.value == pytest.approx(0.0)


def test_mantel_haenszel_weights() -> None:
    """The change is the mean of the strata's, weighted by n₁n₂/(n₁+n₂) (worked by hand)."""
    strata = [Stratum(0, (50, 100), (60, 100)), Stratum(1, (10, 40), (10, 10))]
    found = standardised_change(strata)
    assert found is not None
    assert found.value == pytest.approx((50 * 0.1 + 8 * 0.75) / 58)


def test_what_has_no_counterpart_says_nothing() -> None:
    """Strata of one time only are left out; without any other there is no change to tell."""
    alone = Stratum(3, (50, 100), (0, 0))
    assert standardised_change([alone]) is None
    assert standardised_change([]) is None
    paired = [Stratum(0, (50, 100), (60, 100)), Stratum(1, (50, 100), (70, 100))]
    assert standardised_change([*paired, alone]) == standardised_change(paired)
    only = standardised_change(paired[:1])
    assert only is not None
    assert only.interval is None


def test_the_interval_covers_the_change() -> None:
    """In 93 % and more of 400 simulated runs of 20 unlike conversations the 95 % interval holds the true change."""
    rng = np.random.default_rng(7)
    held = 0
    for _ in range(400):
        level, effect = rng.uniform(0.3, 0.7, 20), rng.normal(-0.05, 0.05, 20)
        sizes = rng.integers(50, 500, (20, 2))
        strata = [
            Stratum(c, (rng.binomial(n, p), n), (rng.binomial(m, np.clip(p + e, 0, 1)), m))
            for c, (p, e, (n, m)) in enumerate(zip(level, effect, sizes, strict=True))
        ]
        found = standardised_change(strata)
        assert found is not None
        assert found.interval is not None
        held += found.interval.low <= -0.05 <= found.interval.high
    assert held >= 0.93 * 400
