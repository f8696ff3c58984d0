"""What Deployment and InferenceService share. Every text of a user's goes through tojson: quoted, whatever stands in it."""

TEXT = """\
{% macro labels(it) %}
app.kubernetes.io/name: {{ it.application | tojson }}
app.kubernetes.io/instance: {{ it.name | tojson }}
app.kubernetes.io/version: {{ it.version | tojson }}
app.kubernetes.io/component: {{ it.component | tojson }}
app.kubernetes.io/managed-by: "dspec"
{% endmacro %}
{% macro probes(it, port, start) %}
# Ready is: everything loaded{{ ", warmed up, the golden vectors replayed" if it.component == "fastapi" }}. A start that takes longer than {{ start.period_s * start.tries }} s is ended and
# tried anew; generous, since an image just pulled starts slower than any limit of deploy.yaml was measured with.
startupProbe:
  httpGet: {path: /v2/health/ready, port: {{ port }}}
  periodSeconds: {{ start.period_s }}
  timeoutSeconds: 2
  failureThreshold: {{ start.tries }}
readinessProbe:
  httpGet: {path: /v2/health/ready, port: {{ port }}}
  periodSeconds: 5
  timeoutSeconds: 2
  failureThreshold: 2
# Slow to act: a server that is only busy must not be killed for it.
livenessProbe:
  httpGet: {path: /v2/health/live, port: {{ port }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
{% endmacro %}
{% macro container_security() %}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: ["ALL"]
{% endmacro %}
{% macro pod_security(serving) %}
# Nothing in it talks to the API server.
automountServiceAccountToken: false
# Environment variables of the namespace's other services are none of the server's business.
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: {{ serving.user }}
  runAsGroup: {{ serving.user }}
  seccompProfile:
    type: RuntimeDefault
{% endmacro %}
{% macro node_selector(it) %}
{% if it.own_hardware %}
# hardware {{ it.own_hardware }} is a profile of your own: name the nodes that have it here.
{% endif %}
nodeSelector:
  kubernetes.io/os: linux
{% if it.arch %}
  kubernetes.io/arch: {{ it.arch }}
{% endif %}
{% endmacro %}
{% macro mounts(serving) %}
volumeMounts:
  - name: tmp
    mountPath: /tmp
{% if serving.shared_memory %}
  - name: shared-memory
    mountPath: /dev/shm
{% endif %}
{% endmacro %}
{% macro volumes(serving) %}
volumes:
  # The only place that can be written to: the root file system is read-only.
  - name: tmp
    emptyDir:
      sizeLimit: 1Gi
{% if serving.shared_memory %}
  # Triton's Python backend hands tensors over in it; containers have 64 MiB. What is in it counts as memory of the container.
  - name: shared-memory
    emptyDir:
      medium: Memory
      sizeLimit: {{ serving.shared_memory | quantity }}
{% endif %}
{% endmacro %}
"""
