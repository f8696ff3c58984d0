"""kustomization.yaml: what differs between clusters."""

TEXT = """\
# kubectl apply -k kubernetes/
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - deployment.yaml
  - service.yaml
# namespace: inference
# replicas:
#   - {name: {{ it.name }}, count: 3}
images:
  # Where your registry has it. Best by digest: `kustomize edit set image {{ it.name }}=registry.example.com/{{ it.name }}@sha256:…`
  - name: {{ it.name }}
    newName: {{ it.name }}
    newTag: {{ it.version | tojson }}
"""
