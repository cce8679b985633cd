from larder import cached


def test_remembers():
    calls = []

    @cached(max_entries=10)
    def double(x):
        """Twice."""
        calls.append(x)
        return 2 * x

    assert [double(2), double(2), double(3)] == [4, 4, 6]
    assert calls == [2, 3]
    assert double.__doc__ == "Twice."
    assert double.cache.stats.hits == 1


def test_forgets(clock):
    calls = []

    @cached(ttl_s=5, clock=clock)
    def now():
        calls.append(1)
        return clock()

    assert now() == now() == 100
    clock.advance(5)
    assert now() == 105
    assert len(calls) == 2


def test_none_is_a_result():
    calls = []

    @cached()
    def nothing():
        calls.append(1)

    nothing()
    nothing()
    assert len(calls) == 1


def test_unhashable_arguments():
    @cached()
    def total(values, scale=1):
        return sum(values) * scale

    assert total([1, 2]) == 3
    assert total([1, 2], scale=2) == 6
    assert total([1, 3]) == 4
