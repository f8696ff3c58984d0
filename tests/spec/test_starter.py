"""`dspec init`."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspec.spec.catalogue import Catalogue
from dspec.spec.errors import SpecError
from dspec.spec.load import load
from dspec.spec.pysource import bound_names, forward_parameters
from dspec.spec.starter import parse_tensor, slug, starter, write_starter
from dspec.targets import catalogue

MODEL = """\
open("ran", "w")
class Net(Module):
    def forward(self, input_ids, mask, scale=1.0, *, flag=False): ...
def build(): ...
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "My Project"
    (project / "fixtures").mkdir(parents=True)
    (project / "model.py").write_text(MODEL)
    (project / "fixtures/requests.jsonl").write_text("{}\n")
    (project / "w eights.pt").write_bytes(b"")
    return project


@pytest.mark.parametrize(
    "flags",
    [
        {},
        {"name": "net", "inputs": ["image=float32[batch,3,h,w]"], "outputs": ["logits=float32[batch, 10]"]},
        {"inputs": ["a=int64[seq]", "b=float32[]"], "outputs": ["c=float32[seq//2]"], "weights": "w eights.pt"},
    ],
)
def test_the_starter_passes_check(project: Path, flags: dict[str, object]) -> None:
    write_starter(project, catalogue(), **flags)  # type: ignore[arg-type]
    assert load(project / "deploy.yaml", catalogue()).warnings == ()
    assert (project / "deploy.yaml").read_text().startswith("# yaml-language-server: $schema=deploy.schema.json\n")
    assert not Path("ran").exists()


def test_the_name_and_the_inputs_are_read_from_the_folder(project: Path) -> None:
    write_starter(project, catalogue())
    spec = load(project / "deploy.yaml", catalogue()).spec
    assert spec.name == "my-project"
    assert list(spec.model.inputs) == ["input_ids", "mask"]


def test_a_spec_is_never_overwritten(project: Path) -> None:
    (project / "deploy.yaml").write_text("mine")
    with pytest.raises(SpecError, match=r"E0340: `deploy\.yaml` exists already"):
        write_starter(project, catalogue())
    assert [path.name for path in project.iterdir() if path.name.startswith((".", "deploy"))] == ["deploy.yaml"]


def test_other_files_keep_their_lines(project: Path) -> None:
    (project / ".gitignore").write_text("mine\n.dspec/")
    written = write_starter(project, catalogue())
    lines = (project / ".gitignore").read_text().splitlines()
    assert lines[:2] == ["mine", ".dspec/"]
    assert lines.count(".dspec/") == 1
    assert "bundles/**/*.pte" in lines
    assert [path.name for path in written] == ["deploy.yaml", "deploy.schema.json", ".gitignore", ".gitattributes"]
    (project / "deploy.yaml").unlink()
    assert [path.name for path in write_starter(project, catalogue())] == ["deploy.yaml", "deploy.schema.json"]


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("x", "`--input x` is no tensor"),
        ("x=float3[1]", "did you mean `float32`?"),
        ("x=int64[a b]", "`a b` is no size"),
        ("x=int64[0]", "`0` is no size"),
        ("x=int64[seq//2]", "`seq//2` is no size"),
        ("x=int64[a,,b]", "`` is no size"),
        ("x=int64[1]; rm", "is no tensor"),
    ],
)
def test_a_flag_that_is_wrong(flag: str, message: str) -> None:
    with pytest.raises(SpecError) as refused:
        parse_tensor(flag)
    assert message in str(refused.value)


@pytest.mark.parametrize(("name", "factory"), [("My Net", "model.py:build"), ("net", "model.py"), ("net", "a b:c")])
def test_names_are_checked(name: str, factory: str) -> None:
    with pytest.raises(SpecError, match="E0341"):
        starter(name, factory, ["x=float32[2]"])


def test_slug() -> None:
    assert [slug(text) for text in ("My Net_2", "--", "Ünet")] == ["my-net-2", "model", "net"]


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def a(): ...\nclass B: ...\nasync def c(): ...\nd = e = 1\nimport f.g, h as i\n", set("aBcdefi")),
        ("try:\n    from x import a\nexcept ImportError:\n    a = None\n", {"a"}),
        ("from x import *\n", None),
        ("globals()['a'] = 1\n", None),
        ("def __getattr__(name): ...\n", None),
        ("def broken(\n", None),
        ("(" * 5000, None),
        ('a = "\\d"\n', {"a"}),
    ],
)
def test_names_are_read_not_run(tmp_path: Path, source: str, names: set[str] | None) -> None:
    (tmp_path / "a.py").write_text(source)
    assert bound_names(tmp_path / "a.py") == names
    assert forward_parameters(tmp_path / "a.py") == ()


def test_the_toy_catalogue_has_no_onnxruntime(project: Path, toy: Catalogue) -> None:
    write_starter(project, toy)
    with pytest.raises(SpecError, match="the runtime `onnxruntime` is not offered by this installation"):
        load(project / "deploy.yaml", toy)
