"""FastAPI: a service with batching, isolated workers, readiness by golden vectors, and metrics."""
