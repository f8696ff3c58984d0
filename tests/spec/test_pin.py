"""`dspec pin` edits digests and nothing else."""

from __future__ import annotations

import difflib
import hashlib
from pathlib import Path

import pytest

from dspec.spec.catalogue import Catalogue
from dspec.spec.errors import MachineError, SpecError
from dspec.spec.pin import pin

WEIGHTS = hashlib.sha256(b"weights").hexdigest()
ALPHABET = hashlib.sha256(b"a\nb\n").hexdigest()
OLD = "d" * 64
HEAD = "# kept: as it is\napiVersion: dspec/v1alpha1\nmodel:\n"


def _pinned(folder: Path, toy: Catalogue, text: str) -> tuple[list[str], list[str]]:
    path = folder / "deploy.yaml"
    path.write_bytes(text.encode())
    path.chmod(0o640)
    changed = pin(path, toy)
    assert path.stat().st_mode & 0o777 == 0o640
    assert pin(path, toy) == []
    after = path.read_bytes().decode()
    lines = difflib.ndiff(text.splitlines(keepends=True), after.splitlines(keepends=True))
    return changed, [line for line in lines if line[0] in "+-"]


def test_a_digest_in_brackets_is_replaced_in_place(folder: Path, toy: Catalogue) -> None:
    text = HEAD + f"  weights: {{ path: weights.pt,   sha256: '{OLD}' , cast: true}}  # why\n"
    changed, lines = _pinned(folder, toy, text)
    assert changed == [f"model.weights: sha256 {WEIGHTS}"]
    assert lines == [
        f"-   weights: {{ path: weights.pt,   sha256: '{OLD}' , cast: true}}  # why\n",
        f"+   weights: {{ path: weights.pt,   sha256: {WEIGHTS} , cast: true}}  # why\n",
    ]


def test_an_empty_digest_is_filled_in(folder: Path, toy: Catalogue) -> None:
    _, lines = _pinned(folder, toy, HEAD + "  weights:\n    path: weights.pt\n    sha256:\n    cast: true\n")
    assert lines == ["-     sha256:\n", f"+     sha256: {WEIGHTS}\n"]
    _, lines = _pinned(folder, toy, HEAD + "  weights: {path: weights.pt, sha256: }\n")
    assert lines[-1] == f"+   weights: {{path: weights.pt, sha256: {WEIGHTS} }}\n"


def test_a_parameter_of_a_step_is_pinned(folder: Path, toy: Catalogue) -> None:
    text = HEAD + (
        f"  weights: {{path: weights.pt}}\npreprocess:\n  - use: letters\n    alphabet:\n      sha256: {OLD}   # old\n"
        "      path: alphabet.txt\n"
    )
    changed, lines = _pinned(folder, toy, text)
    assert changed == [f"preprocess[0].alphabet: sha256 {ALPHABET}"]
    assert lines == [f"-       sha256: {OLD}   # old\n", f"+       sha256: {ALPHABET}   # old\n"]


def test_a_shared_mapping_is_edited_once(folder: Path, toy: Catalogue) -> None:
    step = "  - {use: letters, alphabet: *a}\n"
    text = HEAD + f"preprocess:\n  - {{use: letters, alphabet: &a {{path: alphabet.txt, sha256: {OLD}}}}}\n{step}"
    changed, lines = _pinned(folder, toy, text)
    assert len(changed) == 2
    assert len(lines) == 2


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "site/toy_weights-1.2.dist-info"
    info.mkdir(parents=True)
    (tmp_path / "site/toy_weights").mkdir()
    (tmp_path / "site/toy_weights/w.pt").write_bytes(b"weights")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-weights\nVersion: 1.2\n")
    (info / "RECORD").write_text("toy_weights/w.pt,,\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_a_package_gets_a_digest_on_a_line_of_its_own(folder: Path, toy: Catalogue, newline: str, bom: str) -> None:
    text = bom + HEAD + "  weights:\n    package: toy-weights==1.2  # pinned\n    path: w.pt   # here\n\n  config: {}\n"
    _, lines = _pinned(folder, toy, text.replace("\n", newline))
    assert lines == [f"+     sha256: {WEIGHTS}{newline}"]


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("weights", "line"),
    [
        ("{package: toy-weights==1.2, path: w.pt}", "{package: toy-weights==1.2, path: w.pt, sha256: DIGEST}"),
        ("{path: 'w.pt', package: toy-weights==1.2}", "{path: 'w.pt', sha256: DIGEST, package: toy-weights==1.2}"),
        ("\n    package: toy-weights==1.2\n    path: w.pt", "    sha256: DIGEST"),
    ],
)
def test_a_package_gets_a_digest_at_the_end_of_the_file(folder: Path, toy: Catalogue, weights: str, line: str) -> None:
    (folder / "deploy.yaml").write_text(HEAD + f"  weights: {weights}")
    pin(folder / "deploy.yaml", toy)
    assert (folder / "deploy.yaml").read_text().endswith(line.replace("DIGEST", WEIGHTS))


@pytest.mark.parametrize(
    ("weights", "kind", "message"),
    [
        ("{package: no-such==1, path: a}", MachineError, "deploy.yaml:4:22: error E0336: the package no-such is not"),
        (
            f"{{path: wieghts.pt, sha256: {OLD}}}",
            SpecError,
            "deploy.yaml:4:19: error E0331: there is no file `wieghts.pt`",
        ),
        (f"{{pth: weights.pt, sha256: {OLD}}}", SpecError, "deploy.yaml:4:13: error E0201: unknown key `pth`"),
        (f"{{path: link.txt, sha256: {OLD}}}", SpecError, "E0330"),
    ],
)
def test_a_source_that_is_wrong_leaves_the_file(
    folder: Path, toy: Catalogue, weights: str, kind: type[Exception], message: str
) -> None:
    text = HEAD + f"  weights: {weights}\n"
    (folder / "deploy.yaml").write_text(text)
    with pytest.raises(kind) as refused:
        pin(folder / "deploy.yaml", toy)
    assert message in str(refused.value)
    assert (folder / "deploy.yaml").read_text() == text
    assert sorted(path.name for path in folder.iterdir() if "pin" in path.name) == []
