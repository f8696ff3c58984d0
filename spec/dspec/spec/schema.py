"""JSON Schemas (2020-12) of what is written and read: `deploy.yaml` as written, `bundle.json`, `evidence/*.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from dspec.spec.catalogue import Catalogue, RuntimeEntry
from dspec.spec.foreign import KNOWN
from dspec.spec.hardware import PROFILES
from dspec.spec.models import Spec
from dspec.spec.records import Evidence, Manifest
from dspec.spec.written import PYTHON, PythonStep, options_model, step_model

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_REF = "#/$defs/{model}"
Schema = dict[str, Any]


def deploy_schema(catalogue: Catalogue) -> Schema:
    """The schema of a spec as written: step parameters beside `use`, options by runtime."""
    schema = _of(Spec)
    definitions = schema["$defs"]
    definitions.pop("StepUse")
    definitions["Step"] = {
        "description": "one step; its parameters stand beside `use`",
        "type": "object",
        "properties": {"use": {"enum": sorted(catalogue.steps), "description": "the step's name"}},
        "anyOf": [{"required": ["use"]}, {"required": [PYTHON]}],
        "allOf": [_step(definitions, name, model) for name, model in _step_models(catalogue).items()],
    }
    for section in ("preprocess", "postprocess"):
        schema["properties"][section] = {"type": "array", "items": {"$ref": "#/$defs/Step"}, "default": []}
    _runtimes(definitions, catalogue)
    schema["properties"]["apiVersion"]["enum"] = [schema["properties"]["apiVersion"].pop("const")]
    return {"$schema": DIALECT, "title": "deploy.yaml", **{k: v for k, v in schema.items() if k != "title"}}


def bundle_schema() -> Schema:
    """The schema of `bundle.json`."""
    return {"$schema": DIALECT, **_of(Manifest)}


def evidence_schema() -> Schema:
    """The schema of `evidence/<target>.json`."""
    return {"$schema": DIALECT, **_of(Evidence)}


def schemas(catalogue: Catalogue) -> dict[str, Schema]:
    """File name → schema."""
    return {
        "deploy.schema.json": deploy_schema(catalogue),
        "bundle.schema.json": bundle_schema(),
        "evidence.schema.json": evidence_schema(),
    }


def text(schema: Schema) -> str:
    """The one text of a schema file."""
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def write_all(folder: Path, catalogue: Catalogue) -> list[Path]:
    """Write every schema; gives the files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, schema in schemas(catalogue).items():
        (folder / name).write_text(text(schema), "utf-8")
        written.append(folder / name)
    return written


def _of(model: type[BaseModel]) -> Schema:
    return model.model_json_schema(by_alias=True, mode="validation", ref_template=_REF)


def _step_models(catalogue: Catalogue) -> dict[str, type[BaseModel]]:
    shipped = {name: step_model(entry) for name, entry in sorted(catalogue.steps.items()) if name != PYTHON}
    return {**shipped, PYTHON: PythonStep}


def _step(definitions: Schema, name: str, model: type[BaseModel]) -> Schema:
    """`use` selects the parameters; a plain `if` lets an editor complain about the one step that is meant."""
    named = {"properties": {"use": {"const": name}}, "required": ["use"]}
    own = {"anyOf": [named, {"required": [PYTHON], "not": {"required": ["use"]}}]}
    reference = _REF.format(model=_defined(definitions, f"step.{name}", model))
    return {"if": own if name == PYTHON else named, "then": {"$ref": reference}}


def _defined(definitions: Schema, name: str, model: type[BaseModel]) -> str:
    """Move a model's schema, and what it refers to, into the shared definitions."""
    schema = _of(model)
    for inner, definition in schema.pop("$defs", {}).items():
        definitions.setdefault(inner, definition)
    definitions[name] = schema
    return name


def _runtimes(definitions: Schema, catalogue: Catalogue) -> None:
    target = definitions["Target"]
    names = sorted(catalogue.runtimes)
    target["properties"]["runtime"] |= {"enum": names}
    target["properties"]["hardware"]["examples"] = sorted(PROFILES)
    target["allOf"] = [_options_of(definitions, catalogue.runtimes[name]) for name in names]
    missing = [name for name in KNOWN if name not in names]
    if missing:
        target["properties"]["runtime"]["description"] = f"not in this installation: {', '.join(missing)}"


def _options_of(definitions: Schema, entry: RuntimeEntry) -> Schema:
    name = _defined(definitions, f"options.{entry.name}", options_model(entry))
    return {
        "if": {"properties": {"runtime": {"const": entry.name}}, "required": ["runtime"]},
        "then": {"properties": {"options": {"$ref": _REF.format(model=name)}}},
    }
