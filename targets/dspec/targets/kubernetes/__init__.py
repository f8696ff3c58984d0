"""Kubernetes manifests of a service: not a runtime, but what runtimes that serve lay beside their bundle."""
