"""A job → what its repository is made from."""

from __future__ import annotations

from dspec.spec import flows
from dspec.spec.catalogue import Value
from dspec.spec.fit import item_shape
from dspec.spec.models import Spec
from dspec.spec.records import Interface
from dspec.targets import catalogue
from dspec.targets.protocol import Job
from dspec.targets.triton.models import Served
from dspec.targets.triton.options import Options


def served_of(job: Job, options: Options, gpu: bool) -> Served:
    """Of the interface that capture found."""
    interface = job.program.interface
    return Served(
        name=job.spec.name,
        version=job.spec.version,
        interface=interface,
        fields=job.spec.request,
        answers=answers_of(job.spec, interface),
        options=options,
        cores=job.target.resources.cores,
        gpu=gpu,
    )


def answers_of(spec: Spec, interface: Interface) -> dict[str, Value | None]:
    """Each field of the response → its type for one item; None where it is not known before running."""
    known = catalogue()
    given = {
        name: known.value("tensor", port.dtype, flows.known(item_shape(port.shape, interface.dims)))
        for name, port in interface.outputs.items()
    }
    values = flows.follow(spec.postprocess, given, known)
    sources = {name: answer.source for name, answer in spec.response.items()} or {
        name: name for name in interface.outputs
    }
    return {name: values.get(source) for name, source in sources.items()}
