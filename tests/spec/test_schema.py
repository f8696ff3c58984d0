"""The JSON Schemas accept what `load` accepts, refuse what it refuses, and lie current in `schemas/`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from dspec.spec.catalogue import Catalogue
from dspec.spec.nodes import plain
from dspec.spec.schema import bundle_schema, deploy_schema, evidence_schema, schemas, text, write_all
from dspec.spec.words import pattern_words
from dspec.spec.yamltext import parse
from dspec.targets import catalogue

ROOT = Path(__file__).parents[2]

GOOD = [
    "request: {text: {type: text}}\npreprocess: [{use: letters, max_length: 3, alphabet: a.txt, in: text, out: [a, b]}]\n",
    "preprocess: [{use: letters, max_length: 3, alphabet: {package: a==1, path: b}}, {python: a.py:b}]\n",
    "preprocess: [{use: python, python: a.py:b, place: host}]\n",
    "slo: {latency_ms: {p95: 3}}\nwaivers: [{target: a, gate: parity, verdict: fail, reason: r, owner: o, "
    'expires: "2030-01-01"}]\n',
    "postprocess: [{use: scale, weights: [1, 2.5]}]\nresponse: {a: {from: y}}\nversion: '3'\n",
]
BAD = {
    "ownr: me\n": "'ownr' was unexpected",
    "version: 1.10\n": "1.1 is not of type 'string'",
    "preprocess: [{use: leters}]\n": "'leters' is not one of",
    "preprocess: [{use: letters, max_length: 3, alphabt: a}]\n": "'alphabt' was unexpected",
    "preprocess: [{use: letters}]\n": "'max_length' is a required property",
    "preprocess: [{id: a}]\n": "is not valid under any of the given schemas",
    "preprocess: [{use: scale, place: moon}]\n": "'moon' is not one of",
    "slo: {latency: 3}\n": "'latency' was unexpected",
    "tolerance: {default: {atol: -1}}\n": "{'atol': -1} is not valid under any of the given schemas",
}
TARGETS = {
    "{runtime: portabel}": "'portabel' is not one of",
    "{runtime: portable, options: {least: 1}}": "'least' was unexpected",
    "{runtime: portable, options: {level: ful}}": "'ful' is not one of",
}


def _errors(schema: dict[str, Any], spec: str) -> Iterator[str]:
    value = plain(parse(spec.encode(), "deploy.yaml")[1])
    for found in jsonschema.Draft202012Validator(schema).iter_errors(value):
        yield found.message


@pytest.fixture
def schema(toy: Catalogue) -> dict[str, Any]:
    return deploy_schema(toy)


SMALL = """\
apiVersion: dspec/v1alpha1
name: tiny
model: {factory: "model.py:build", inputs: {x: {dtype: float32, shape: [batch, 8]}}, dims: {batch: {max: 8}}}
fixtures: [{file: requests.jsonl}]
targets: {local: TARGET}
"""


@pytest.mark.parametrize("more", GOOD)
def test_what_is_right_is_accepted(schema: dict[str, Any], more: str) -> None:
    assert list(_errors(schema, SMALL.replace("TARGET", "{runtime: portable, options: {level: full}}") + more)) == []


@pytest.mark.parametrize(("more", "message"), BAD.items())
def test_what_is_wrong_is_refused(schema: dict[str, Any], more: str, message: str) -> None:
    (found,) = _errors(schema, SMALL.replace("TARGET", "{runtime: portable}") + more)
    assert message in found


@pytest.mark.parametrize(("target", "message"), TARGETS.items())
def test_options_follow_the_runtime(schema: dict[str, Any], target: str, message: str) -> None:
    (found,) = _errors(schema, SMALL.replace("TARGET", target))
    assert message in found


def test_editors_find_descriptions(schema: dict[str, Any]) -> None:
    letters = schema["$defs"]["step.letters"]["properties"]
    assert letters["alphabet"]["description"] == "a file with one letter a line, in order."
    assert letters["max_length"]["description"] == "letters at most."
    assert schema["$defs"]["options.portable"]["properties"]["threads"]["description"] == "0 stands for all."
    assert schema["$defs"]["Model"]["properties"]["weights"]["description"]


@pytest.mark.parametrize("made", [deploy_schema(catalogue()), bundle_schema(), evidence_schema()])
def test_each_is_a_schema_of_2020_12(made: dict[str, Any]) -> None:
    assert made["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(made)


def test_the_committed_files_are_current() -> None:
    for name, made in schemas(catalogue()).items():
        committed = (ROOT / "schemas" / name).read_text("utf-8")
        assert committed == text(made), (
            f'schemas/{name} is not current: dspec.spec.schema.write_all(Path("schemas"), dspec.targets.catalogue())'
        )


def test_write_all_gives_the_files(tmp_path: Path, toy: Catalogue) -> None:
    written = write_all(tmp_path / "new", toy)
    assert [path.name for path in written] == sorted(schemas(toy), key=list(schemas(toy)).index)
    assert json.loads(written[0].read_text())["title"] == "deploy.yaml"


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*/deploy.yaml")), ids=lambda path: path.parent.name)
def test_the_examples_are_accepted(path: Path) -> None:
    assert list(_errors(deploy_schema(catalogue()), path.read_text("utf-8"))) == []


def test_every_pattern_has_words() -> None:
    patterns = set(re.findall(r'"pattern": "((?:[^"\\]|\\.)*)"', text(deploy_schema(catalogue()))))
    for pattern in {json.loads(f'"{found}"') for found in patterns}:
        assert not pattern_words(pattern).startswith("a text that matches"), pattern
