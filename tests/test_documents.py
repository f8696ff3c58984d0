"""What README and CONTRIBUTING show works as shown."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from dspec.compiler.cli import main
from dspec.spec.load import load
from dspec.targets import catalogue
from dspec.targets.shipped.step import IMAGE, Value

ROOT = Path(__file__).parents[1]


def _block(document: str, language: str, beginning: str) -> str:
    """The one code block of that language whose text begins so."""
    text = (ROOT / document).read_text()
    blocks = re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (found,) = (block for block in blocks if block.startswith(beginning))
    return str(found)


@pytest.fixture
def smallest(tmp_path: Path) -> Path:
    path = tmp_path / "deploy.yaml"
    path.write_text(_block("README.md", "yaml", "apiVersion"))
    (tmp_path / "model.py").write_text("def build(): ...\n")
    (tmp_path / "weights.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    (tmp_path / "fixtures").mkdir()
    (tmp_path / "fixtures/requests.jsonl").write_text("{}\n")
    return path


def test_the_smallest_spec_is_a_dozen_lines_and_checks(smallest: Path) -> None:
    assert len(smallest.read_text().splitlines()) <= 12
    assert list(load(smallest, catalogue()).spec.targets) == ["local"]


def test_the_mistakes_shown_are_what_check_says(
    smallest: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = smallest.read_text().replace("[batch, 10]", "[bach, 10]").replace("onnxruntime", "onnxruntim")
    smallest.write_text(text)
    monkeypatch.chdir(smallest.parent)
    assert main(["check"]) == 2
    said = capsys.readouterr()
    assert said.err + said.out == _block("README.md", "text", "deploy.yaml")


def test_the_step_of_the_guide_is_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("dspec.targets.shipped.steps.invert")
    module.__package__ = "dspec.targets.shipped.steps"
    monkeypatch.setitem(sys.modules, module.__name__, module)  # dataclasses look their module up
    exec(compile(_block("CONTRIBUTING.md", "python", '"""invert'), "invert.py", "exec"), module.__dict__)
    invert = module.STEP(peak=255)
    photo = Value(IMAGE, "uint8", (2, 2, 3))
    assert invert.flow(photo) == (photo,)
    assert invert.open()(np.full((2, 2, 3), 5, np.uint8)).tolist() == [[[250] * 3] * 2] * 2
    with pytest.raises(ValueError, match="image"):
        invert.flow(Value("text"))


def test_the_table_of_steps_is_complete_and_bold_where_they_may_run_in_the_graph() -> None:
    section = (ROOT / "README.md").read_text().partition("## Steps, and where they run")[2].partition("`place:`")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ") and "`" in line]
    told = {name: "graph" if bold else "host" for bold, name in re.findall(r"(\*\*)?`(\w+)`", "".join(rows))}
    known = catalogue().steps
    assert told == {name: "graph" if "graph" in known[name].places else "host" for name in known if name != "python"}


def test_the_example_of_places_checks(tmp_path: Path, smallest: Path) -> None:
    text = smallest.read_text().replace("{image:", "{pixels:").replace("outputs: {logits", "outputs: {scores")
    smallest.write_text(text + _block("README.md", "yaml", "request: {photo"))
    assert [step.place for step in load(smallest, catalogue()).spec.preprocess] == ["contract"] * 2 + ["graph"] * 2


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_links_lead_somewhere(document: str) -> None:
    targets = re.findall(r"\]\(([^)#:]+)\)", (ROOT / document).read_text())
    assert [target for target in targets if not (ROOT / document).parent.joinpath(target).exists()] == []
