"""deployment.yaml."""

TEXT = """\
{% import "parts" as parts %}
# Written by dspec; `kustomization.yaml` is the place for what differs between clusters.
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ it.name }}
  labels:
    {{ parts.labels(it) | trim | indent(4) }}
{% if it.owner %}
  annotations:
    owner: {{ it.owner | tojson }}
{% endif %}
spec:
  # No `replicas`: a number here would undo, at every apply, what an autoscaler chose. Kubernetes starts one.
  revisionHistoryLimit: 5
  progressDeadlineSeconds: {{ start.progress_s }}
  strategy:
    type: RollingUpdate
    rollingUpdate:
      # An old pod goes when a new one is ready. A new version that can't get ready takes nothing
      # away. So there must be room for one pod more{{ ", accelerator included" if it.device }}.
      maxUnavailable: 0
      maxSurge: 1
  selector:
    # Can never be changed once applied, so the version is not in it.
    matchLabels:
      app.kubernetes.io/name: {{ it.application | tojson }}
      app.kubernetes.io/instance: {{ it.name | tojson }}
  template:
    metadata:
      labels:
        {{ parts.labels(it) | trim | indent(8) }}
      annotations:
        kubectl.kubernetes.io/default-container: server
        prometheus.io/scrape: "true"
        prometheus.io/path: /metrics
{% for port in serving.ports if port.name == serving.metrics %}
        prometheus.io/port: "{{ port.number }}"
{% endfor %}
{% if it.owner %}
        owner: {{ it.owner | tojson }}
{% endif %}
    spec:
      # Longer than stopping takes:{{ " %d s before SIGTERM," % serving.pause_s if serving.pause_s }} {{ serving.stop_s }} s for what is in flight, and some to spare.
      terminationGracePeriodSeconds: {{ serving.grace_s }}
      {{ parts.pod_security(serving) | trim | indent(6) }}
      {{ parts.node_selector(it) | trim | indent(6) }}
      topologySpreadConstraints:
        # A node that fails takes as few of the replicas along as can be.
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              app.kubernetes.io/name: {{ it.application | tojson }}
              app.kubernetes.io/instance: {{ it.name | tojson }}
      containers:
        - name: server
          # A name for kustomize's `images:` to replace; it holds this bundle in /bundle.
          image: {{ it.name }}:{{ it.version }}
          imagePullPolicy: IfNotPresent
          command:
{% for word in serving.command %}
            - {{ word | tojson }}
{% endfor %}
          args:
{% for word in serving.args %}
            - {{ word | tojson }}
{% endfor %}
          ports:
{% for port in serving.ports %}
            - name: {{ port.name }}
              containerPort: {{ port.number }}
{% endfor %}
          resources:
            requests:
              cpu: "{{ it.cores }}"
{% if it.memory %}
              memory: {{ it.memory }}
{% endif %}
{% if it.memory or it.device %}
            limits:
{% endif %}
{% if it.memory %}
              # As much as is requested: memory can't be throttled, and more than was promised gets a neighbour killed.
              memory: {{ it.memory }}
{% endif %}
{% if it.device %}
              {{ it.device }}: 1
{% endif %}
            # No CPU limit. The bundle counts its threads from the cores it was proved with ({{ it.cores }}), not from the node's, so it
            # does not grow beyond them; the request is what keeps its share when the node is full. A limit adds nothing but
            # pauses: one burst above it, and every thread stands still for the rest of a 100 ms period: the p99.
            # For cores of its own (kubelet's static CPU manager), set limits.cpu to the same whole number{{ "" if it.memory else ", and memory" }}.
{% if not it.memory %}
            # No memory either: deploy.yaml does not say how much (targets.*.resources.memory). Say so there: it is measured
            # against, and a pod without a request is the first to be evicted.
{% endif %}
{% if serving.pause_s %}
          lifecycle:
            preStop:
              # Told to stop, the server refuses what is new at once, while other nodes still send to it: wait until they don't.
              exec:
                command: ["sleep", "{{ serving.pause_s }}"]
{% endif %}
          {{ parts.probes(it, "http", start) | trim | indent(10) }}
          {{ parts.container_security() | trim | indent(10) }}
          {{ parts.mounts(serving) | trim | indent(10) }}
      {{ parts.volumes(serving) | trim | indent(6) }}
"""
