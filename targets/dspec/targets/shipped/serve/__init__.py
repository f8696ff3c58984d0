"""The server: one web process that never computes, and worker processes that hold the model.

command    starts it; web     the ASGI application; pool    workers, queue and deadlines; metrics, log, document
worker     one process: frames in, answers out; intake   bodies → items; batch   items → one run of the model
"""
