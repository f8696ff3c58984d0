"""The bundle's Dockerfile."""

from __future__ import annotations

DOCKERFILE = """\
# docker build -t {name} . && docker run --rm --read-only --tmpfs /tmp --stop-timeout 60 -p 8000:8000 {name}
#
# The minor version of Python is that of the wheels in requirements.txt, and the Debian release is named, so that a rebuild
# moves neither. By digest, or from a mirror: --build-arg BASE=registry.example.com/python@sha256:...
ARG BASE=python:{python}-slim-trixie
FROM ${{BASE}}
RUN useradd --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin bundle
WORKDIR /bundle
# Requirements first: a bundle whose model alone has changed takes this layer from the cache.
COPY requirements.txt .
{index}RUN pip install --no-cache-dir --no-deps --disable-pip-version-check --root-user-action=ignore -r requirements.txt
# Owned by root: the service can't write to what it was proved with.
COPY . .
USER 10001:10001
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
EXPOSE 8000
# For Docker alone: Kubernetes has probes of its own. The first start warms up and replays the golden vectors.
HEALTHCHECK --interval=10s --timeout=3s --start-period=300s \\
  CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/v2/health/ready', timeout=2)"]
# The exec form: the server is process 1, and SIGTERM reaches it.
CMD ["python", "-m", "dspec_bundle", "serve", "--host", "0.0.0.0", "--port", "8000"]
"""
# What PyPI calls torch==X is the build for CUDA, which does not import without the libraries that --no-deps leaves out.
CPU_TORCH = """\
# torch for CPUs, whose version (+cpu) counts as the higher one: PyPI's needs CUDA libraries, which are not in requirements.txt.
ARG PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu
"""


def dockerfile(name: str, python: str, engine: str = "onnxruntime") -> str:
    """`python`: version of the interpreter, e.g. 3.11: wheels in requirements.txt are for it."""
    return DOCKERFILE.format(name=name, python=python, index=CPU_TORCH if engine == "eager" else "")
