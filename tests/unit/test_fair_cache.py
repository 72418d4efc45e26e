"""A cache that is fair: who fills it displaces his own entries."""

from __future__ import annotations

from dpsql.fair_cache import FairCache


def filled(cache: FairCache[str, str], owner: str, *keys: str, size: int = 0) -> None:
    for key in keys:
        cache.put(key, key.upper(), owner, size)


def kept(cache: FairCache[str, str], keys: str) -> str:
    return "".join(key for key in keys if key in cache)


def test_what_was_used_longest_ago_is_forgotten() -> None:
    cache: FairCache[str, str] = FairCache(2)
    filled(cache, "ann", "a", "b")
    assert cache.get("a") == "A"
    filled(cache, "ann", "c")
    assert kept(cache, "abc") == "ac"
    assert cache.get("b") is None


def test_who_fills_it_displaces_his_own_entries() -> None:
    cache: FairCache[str, str] = FairCache(4)
    filled(cache, "ann", "a", "b")
    filled(cache, "eve", *"uvwxyz")
    assert kept(cache, "ab") == "ab"
    assert kept(cache, "uvwxyz") == "yz"
    filled(cache, "bob", "c")
    assert len(cache) == 4
    assert "c" in cache


def test_bytes_are_limited_too() -> None:
    cache: FairCache[str, str] = FairCache(10, 100)
    filled(cache, "ann", "a", size=40)
    filled(cache, "eve", "x", "y", size=30)
    assert (kept(cache, "axy"), cache._sizes.total()) == ("axy", 100)
    filled(cache, "eve", "z", size=30)
    assert (kept(cache, "axyz"), cache._sizes.total()) == ("ayz", 100)
    filled(cache, "eve", "w", size=101)  # alone it is larger than all may be
    assert (kept(cache, "ayzw"), cache._sizes.total()) == ("ayz", 100)
    filled(cache, "ann", "a", size=10)
    assert cache._sizes.total() == 70


def test_a_value_is_forgotten_unless_another_took_its_place() -> None:
    cache: FairCache[str, str] = FairCache(2, 10)
    cache.put("a", old := "old", "ann", 5)
    cache.put("a", "new", "bob", 5)
    cache.forget("a", old)
    assert cache.get("a") == "new"
    cache.forget("a", "new")
    assert (cache.get("a"), cache._sizes.total(), len(cache)) == (None, 0, 0)
