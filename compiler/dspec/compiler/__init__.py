"""The flow from a spec to a publication: one module per stage."""
