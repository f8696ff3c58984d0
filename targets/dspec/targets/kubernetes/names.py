"""Names that Kubernetes takes, made from names that people gave."""

from __future__ import annotations

import hashlib
import re

# Knative calls a revision of KServe's `<name>-predictor-00001`, which is a label of 63.
LONGEST_NAME = 46
LONGEST_LABEL = 63
DIGITS = 6


def object_name(text: str, longest: int = LONGEST_NAME) -> str:
    """`text` where it can name a Service (RFC 1035: a letter first; `a-z0-9-`), else the nearest name that can.

    A name that had to be changed ends in digits of the original's digest, so that `A.b` and `a-b` remain two objects
    of a namespace rather than one that overwrites the other.
    """
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return _told_apart(text, plain if plain[:1].isalpha() else f"m-{plain}", longest)


def label_value(text: str, longest: int = LONGEST_LABEL) -> str:
    """`text` where it can be a label's value (`A-Za-z0-9._-`, a letter or digit at both ends), else the nearest that can."""
    return _told_apart(text, re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("._-"), longest)


def _told_apart(text: str, plain: str, longest: int) -> str:
    if plain and plain == text and len(plain) <= longest:
        return plain
    digest = hashlib.sha256(text.encode()).hexdigest()[:DIGITS]
    kept = plain[: longest - DIGITS - 1].rstrip("._-")
    return f"{kept}-{digest}" if kept else f"m-{digest}"
