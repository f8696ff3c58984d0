"""The bundle's Dockerfile."""

from __future__ import annotations

DOCKERFILE = """\
# docker build -t {name} . && docker run --rm -p 8000:8000 {name}
FROM python:{python}-slim
RUN useradd --system --uid 10001 --no-create-home bundle
WORKDIR /bundle
COPY requirements.txt .
RUN pip install --no-cache-dir --no-deps -r requirements.txt
COPY . .
USER 10001
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
EXPOSE 8000
# The first start warms up and replays the golden vectors.
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s \\
  CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/v2/health/ready', timeout=2)"]
# The exec form: the server is process 1, and SIGTERM reaches it.
CMD ["python", "-m", "dspec_bundle", "serve", "--host", "0.0.0.0", "--port", "8000"]
"""


def dockerfile(name: str, python: str) -> str:
    """`python`: version of the interpreter, e.g. 3.11: wheels in requirements.txt are for it."""
    return DOCKERFILE.format(name=name, python=python)
