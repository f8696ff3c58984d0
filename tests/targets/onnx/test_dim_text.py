from __future__ import annotations

import pytest

from dspec.spec.models import Dim
from dspec.targets.artifacts.dim_text import NotComputable, renamed, same, settled, value

DIMS = {"batch": Dim(min=1, max=32), "seq": Dim(min=2, max=256), "even": Dim(min=2, max=8, multiple_of=2)}

SAME = [
    ("batch", "batch", True),
    ("seq//2", "(seq//2)", True),
    ("2*seq + 1", "1 + 2*seq", True),
    ("even", "2*(even//2)", True),
    ("seq", "2*(seq//2)", False),
    ("batch", 3, False),
    (12, "batch", False),
    (12, 12, True),
    (12, 13, False),
    ("seq", "batch", False),
    ("found", "u0", True),  # known only when running
    (3, "u0", False),
    ("batch", "", True),  # the converter lost it; what is declared stands, and is measured
    (3, "", False),
    ("min(seq, 128)", "Min(128, seq)", True),
    ("batch**2", "batch*batch", True),
    ("batch", "__import__('os').getpid()", True),  # not evaluated
]


@pytest.mark.parametrize(("declared", "found", "expected"), SAME)
def test_whether_two_texts_say_the_same(declared: int | str, found: int | str, expected: bool) -> None:
    assert same(declared, found, DIMS) is expected


def test_symbols_are_renamed_as_wholes() -> None:
    names = {"s7": "batch", "s77": "seq", "2*s5": "even"}
    assert renamed("s77", names) == "seq"
    assert renamed("s7*s77 + xs7", names) == "batch*seq + xs7"
    assert renamed("2*s5", names) == "even"


@pytest.mark.parametrize("text", ["a + 1", "seq +", "seq / 0", "'text'", "seq.real"])
def test_what_has_no_value(text: str) -> None:
    with pytest.raises(NotComputable):
        value(text, {"seq": 4})


def test_a_dim_with_one_size_is_a_number() -> None:
    dims = {"batch": Dim(min=3, max=3), "even": Dim(min=3, max=5, multiple_of=4), "seq": Dim(min=2, max=9)}
    assert settled(("batch", "2*even", "seq", "seq*batch", 7), dims) == (3, 8, "seq", "seq*batch", 7)
