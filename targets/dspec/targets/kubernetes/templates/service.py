"""service.yaml."""

TEXT = """\
{% import "parts" as parts %}
apiVersion: v1
kind: Service
metadata:
  name: {{ it.name }}
  labels:
    {{ parts.labels(it) | trim | indent(4) }}
spec:
  type: ClusterIP
  selector:
    app.kubernetes.io/name: {{ it.application | tojson }}
    app.kubernetes.io/instance: {{ it.name | tojson }}
  ports:
{% for port in serving.ports %}
{% if port.protocol == "grpc" %}
    # One connection carries all calls of a client and stays with one pod: balance per call in a mesh or in the client.
{% endif %}
    - name: {{ port.name }}
      port: {{ port.number }}
      targetPort: {{ port.name }}
      appProtocol: {{ port.protocol }}
{% endfor %}
"""
