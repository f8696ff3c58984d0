"""The code that travels in bundles as `dspec_bundle`: standard library, numpy, step libraries."""
