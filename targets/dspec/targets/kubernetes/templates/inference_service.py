"""inference_service.yaml, for KServe."""

TEXT = """\
{% import "parts" as parts %}
# For a cluster that has KServe (0.16 or later), instead of Deployment and Service. Two things are to be set, the image
# and where the model repository lies, which kustomize does not know of in this kind:
#
#   sed -i 's|image: {{ it.name }}:.*|image: registry.example.com/{{ it.name }}@sha256:…|' inference_service.yaml
#   sed -i 's|unset://model_repository|s3://models/{{ it.name }}/{{ it.version }}|' inference_service.yaml
#   kubectl apply -f inference_service.yaml
#
# Whatever KServe's webhook would fill in stands here already, so that what is applied is what runs, and a later diff is empty.
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata:
  name: {{ it.name }}
  labels:
    {{ parts.labels(it) | trim | indent(4) }}
  annotations:
    # A plain Deployment: no scaling to zero, which would put the cold start into somebody's latency.
    serving.kserve.io/deploymentMode: Standard
{% if it.owner %}
    owner: {{ it.owner | tojson }}
{% endif %}
spec:
  predictor:
    minReplicas: 1
    terminationGracePeriodSeconds: {{ serving.grace_s }}
    {{ parts.pod_security(serving) | trim | indent(4) }}
    {{ parts.node_selector(it) | trim | indent(4) }}
    model:
      # Not `predictor.triton`, which the webhook rewrites to this.
      modelFormat:
        name: triton
      protocolVersion: v2
      # The content of model_repository/, uploaded; KServe puts it into /mnt/models. As it stands KServe refuses it.
      storageUri: unset://model_repository
      # KServe's own image lacks what the steps of the pipeline need.
      image: {{ it.name }}:{{ it.version }}
      # Added to those of the runtime kserve-tritonserver: the repository, and ports 8080 (HTTP) and 9000 (gRPC).
      args:
{% for word in serving.kserve_arguments %}
        - {{ word | tojson }}
{% endfor %}
      # All four: one that is missing is filled in from KServe's runtime, whose CPU limit of 1 lies below this request.
      resources:
        requests:
          cpu: "{{ it.cores }}"
          memory: {{ it.memory or "2Gi" }}
        limits:
          cpu: "{{ it.cores }}"
          memory: {{ it.memory or "2Gi" }}
{% if it.device %}
          {{ it.device }}: 1
{% endif %}
{% if not it.memory %}
      # 2Gi is KServe's own default: deploy.yaml does not say how much (targets.*.resources.memory).
{% endif %}
      lifecycle:
        preStop:
          exec:
            command: ["sleep", "{{ serving.pause_s }}"]
      {{ parts.probes(it, 8080, start) | trim | indent(6) }}
      {{ parts.container_security() | trim | indent(6) }}
      {{ parts.mounts(serving) | trim | indent(6) }}
    {{ parts.volumes(serving) | trim | indent(4) }}
"""
