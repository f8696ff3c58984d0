"""README.md of the folder."""

TEXT = """\
# {{ it.name }} on Kubernetes

    docker build -t registry.example.com/{{ it.name }}:{{ it.version }} .     # {{ "the bundle's Dockerfile" if it.component == "fastapi" else "tritonserver, the requirements, and this bundle in /bundle" }}
    docker push registry.example.com/{{ it.name }}:{{ it.version }}
    cd kubernetes && kustomize edit set image {{ it.name }}=registry.example.com/{{ it.name }}:{{ it.version }}
    kubectl apply -k .
    kubectl rollout status deployment/{{ it.name }}

Edit a copy (or an overlay whose `resources:` names this folder): every file of a bundle is listed with its digest.

{% for port in serving.ports %}
- `{{ it.name }}:{{ port.number }}` ({{ port.name }}{{ ", Prometheus at /metrics" if port.name == serving.metrics }})
{% endfor %}
- startup and readiness ask `/v2/health/ready`, liveness `/v2/health/live`
- a pod that is stopped goes on answering for {{ serving.pause_s or "10" }} s, then finishes what is in flight; the kubelet waits {{ serving.grace_s }} s
- {{ it.cores }} core{{ "s" if it.cores > 1 }} and {{ it.memory or "no memory (deploy.yaml declares none)" }}: what the bundle was measured with. Change `resources:` in deploy.yaml and build again
- the number of replicas is yours: `replicas:` in kustomization.yaml, or an autoscaler
{% if serving.kserve_arguments %}

With KServe, upload `model_repository/` and apply `inference_service.yaml` instead; its head says how to set image and `storageUri`.
{% endif %}
"""
