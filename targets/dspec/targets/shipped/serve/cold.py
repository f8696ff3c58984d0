"""Health, metadata, metrics and the document: what FastAPI answers. Nothing here waits for a worker, but for its counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException

from .datatypes import datatype_of, field_datatype
from .document import document
from .metrics import Metrics
from .pool import Pool
from .refusals import Refusal, body_of

EXTENSIONS = ["binary_tensor_data"]


def cold_routes(manifest: Mapping[str, Any], fields: Mapping[str, Any], pool: Pool, metrics: Metrics) -> FastAPI:
    app = FastAPI(
        title=manifest["name"],
        version=manifest["version"],
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    about = _About(manifest, fields, pool)
    text = orjson.dumps(document(manifest, fields, pool.folder, pool.settings))

    @app.get("/openapi.json")
    async def openapi() -> Response:
        return Response(text, media_type="application/json")

    @app.get("/metrics")
    async def scraped() -> Response:
        return Response(metrics.text(await pool.counts()), media_type=CONTENT_TYPE_LATEST)

    @app.get("/v2")
    async def server() -> Response:
        return _json({"name": "dspec", "version": manifest["version"], "extensions": EXTENSIONS})

    @app.get("/v2/health/live")
    async def live() -> Response:
        return _json({"live": True})

    @app.get("/v2/health/ready")
    async def ready() -> Response:
        return _json({"ready": pool.ready}, 200 if pool.ready else 503)

    async def model(name: str, version: str | None = None) -> Response:
        return _json(about.model(name, version))

    async def model_ready(name: str, version: str | None = None) -> Response:
        about.known(name, version)
        return _json({"name": name, "ready": pool.ready}, 200 if pool.ready else 503)

    for path in ("/v2/models/{name}", "/v2/models/{name}/versions/{version}"):
        app.get(path)(model)
        app.get(f"{path}/ready")(model_ready)

    async def answered_before(request: Request) -> Response:
        raise AssertionError(f"{request.url.path} is answered by a worker")

    for path in ("/predict", "/v2/models/{name}/infer", "/v2/models/{name}/versions/{version}/infer"):
        app.post(path)(answered_before)  # so that other methods are told what is allowed

    @app.exception_handler(Refusal)
    async def refused(request: Request, error: Refusal) -> Response:
        metrics.answered("other", error.status, error.code)
        return _json(body_of(error, v2=request.url.path.startswith("/v2")), error.status)

    @app.exception_handler(HTTPException)
    async def unknown(request: Request, error: HTTPException) -> Response:
        code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "bad_request")
        found = Refusal(error.status_code, code, f"{request.method} {request.url.path}: {str(error.detail).lower()}")
        answer = await refused(request, found)
        answer.headers.update(error.headers or {})
        return answer

    @app.exception_handler(Exception)
    async def broken(request: Request, error: Exception) -> Response:
        return await refused(request, Refusal(500, "internal", "the server failed on this request"))

    return app


def _json(value: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(value), status, media_type="application/json")


class _About:
    """Metadata of the two models: `<name>` takes the request's fields, `<name>.model` tensors."""

    def __init__(self, manifest: Mapping[str, Any], fields: Mapping[str, Any], pool: Pool) -> None:
        self._manifest, self._fields, self._pool = manifest, fields, pool

    def known(self, name: str, version: str | None) -> None:
        own = self._manifest["name"]
        if name not in (own, f"{own}.model") or version not in (None, self._manifest["version"]):
            raise Refusal(
                404,
                "unknown_model",
                f"no model {name}{' version ' + version if version else ''}; there are {own} and {own}.model",
            )

    def model(self, name: str, version: str | None) -> dict[str, Any]:
        self.known(name, version)
        sides = self._tensors() if name.endswith(".model") and name != self._manifest["name"] else self._requests()
        return {
            "name": name,
            "versions": [self._manifest["version"]],
            "platform": f"dspec_{self._manifest['engine']}",
            **sides,
        }

    def _tensors(self) -> dict[str, Any]:
        interface = self._manifest["interface"]
        return {
            side: [
                {
                    "name": name,
                    "datatype": datatype_of(port["dtype"]),
                    "shape": [size if isinstance(size, int) else -1 for size in port["shape"]],
                }
                for name, port in interface[side].items()
            ]
            for side in ("inputs", "outputs")
        }

    def _requests(self) -> dict[str, Any]:
        inputs = [
            {
                "name": name,
                "datatype": field_datatype(field),
                "shape": [-1, *(size if isinstance(size, int) else -1 for size in field.get("shape") or ())],
            }
            for name, field in self._fields.items()
        ]
        outputs = [{**found, "shape": [-1, *found["shape"][1:]]} for found in self._pool.response]
        return {"inputs": inputs, "outputs": outputs}
