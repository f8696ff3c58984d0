"""YAML 1.2 core rules, value by value."""

from __future__ import annotations

import math

import pytest

from dspec.spec.scalars import ScalarError, resolve

TEXTS = ["yes", "no", "on", "off", "y", "n", "Yes", "2024-01-01", "22:22", "1:30", "1_000", "1,5", "0b1", "0x", "0o8",
         "1.2.3", "e5", ".", "-", "+", "--1", "1e", "=", "true1", "nul", "inf", "nan", "١٢"]  # fmt: skip
VALUES = [("", None), ("~", None), ("null", None), ("true", True), ("FALSE", False), ("0", 0), ("-0", 0), ("+7", 7),
          ("0x1F", 31), ("0o17", 15), ("1.10", 1.1), ("1e-4", 1e-4), (".5", 0.5), ("1.", 1.0), ("0.5", 0.5),
          ("-.inf", -math.inf), ("9223372036854775807", 2**63 - 1), ("18446744073709551615", 2**64 - 1)]  # fmt: skip
REFUSED = [("017", "E0112"), ("08", "E0112"), ("-01", "E0112"), ("00", "E0112"), ("00.5", "E0112"), ("01e2", "E0112"),
           ("18446744073709551616", "E0113"), ("-9223372036854775809", "E0113"), ("9" * 5000, "E0113"),
           ("1e999", "E0113"), ("0x" + "f" * 40, "E0113")]  # fmt: skip


@pytest.mark.parametrize("written", TEXTS)
def test_stays_a_text(written: str) -> None:
    assert resolve(written) == written


@pytest.mark.parametrize(("written", "value"), VALUES)
def test_is_read(written: str, value: object) -> None:
    assert (resolve(written), type(resolve(written))) == (value, type(value))


def test_nan_is_a_float() -> None:
    assert math.isnan(resolve(".nan"))


@pytest.mark.parametrize(("written", "code"), REFUSED)
def test_is_refused(written: str, code: str) -> None:
    with pytest.raises(ScalarError) as refused:
        resolve(written)
    assert refused.value.code == code
    assert len(refused.value.message) < 160
