"""The language: what a `deploy.yaml` says, how it is read, and the records that dspec writes."""
