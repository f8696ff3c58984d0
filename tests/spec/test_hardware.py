"""Profiles, and which machines match."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspec.spec.errors import SpecError
from dspec.spec.hardware import PROFILES, matches, profile

OWN = "os: linux\narch: x86_64\ncpu: EPYC 7\nflags: [avx512f]\n"


@pytest.mark.parametrize(
    ("name", "os", "arch", "accelerators", "reason"),
    [
        ("host", "Linux", "riscv64", (), ""),
        ("linux-x86_64", "Linux", "x86_64", (), ""),
        ("linux-x86_64", "Linux", "AMD64", ("cuda",), ""),
        ("linux-arm64", "Linux", "aarch64", (), ""),
        ("linux-arm64", "Linux", "x86_64", (), "linux-arm64 is arm64, this machine is x86_64"),
        ("linux-x86_64", "Darwin", "x86_64", (), "linux-x86_64 is linux, this machine is darwin"),
        ("linux-x86_64-cuda", "Linux", "x86_64", (), "linux-x86_64-cuda has cuda, this machine has none"),
        ("android-arm64", "Linux", "aarch64", (), "android-arm64 is android, this machine is linux"),
    ],
)
def test_matches(name: str, os: str, arch: str, accelerators: tuple[str, ...], reason: str) -> None:
    assert matches(PROFILES[name], os, arch, accelerators, ()) == reason


@pytest.fixture
def own(tmp_path: Path) -> Path:
    (tmp_path / "hardware").mkdir()
    (tmp_path / "hardware/edge.yaml").write_text(OWN)
    return tmp_path


def test_a_file_beside_the_spec_adds_a_profile(own: Path) -> None:
    edge = profile("edge", own)
    assert (edge.os, edge.flags) == ("linux", ("avx512f",))
    assert matches(edge, "Linux", "x86_64", (), ("avx512f",), "AMD EPYC 7543") == ""
    assert (
        matches(edge, "Linux", "x86_64", (), ("avx2",), "AMD EPYC 7543")
        == "edge has avx512f, this machine's CPU has not"
    )
    assert "a CPU named EPYC 7, this machine's is Xeon" in matches(edge, "Linux", "x86_64", (), (), "Xeon")


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("edge.yaml", "os: linux\narhc: x\n", "edge.yaml:2:1: error E0201: unknown key `arhc`"),
        ("edge.yaml", "os: linux\nos: linux\n", "edge.yaml:2:1: error E0107"),
        ("linux-arm64.yaml", OWN, "E0214"),
    ],
)
def test_a_file_that_is_wrong(own: Path, file: str, text: str, message: str) -> None:
    (own / "hardware" / file).write_text(text)
    with pytest.raises(SpecError) as refused:
        profile(file.removesuffix(".yaml"), own)
    assert message in str(refused.value)


def test_an_unknown_name_gets_the_nearest(own: Path) -> None:
    with pytest.raises(SpecError, match="did you mean `edge`"):
        profile("egde", own)
