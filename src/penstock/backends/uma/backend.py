"""UMABackend: the base class of accelerator descriptions.

    class Npu(UMABackend):
        def __init__(self):
            super().__init__()
            self._register_target_attr("lanes", default=8, least=1)
            self._register_pattern("conv2d", is_op("nn.conv2d")(...))
            self._register_operator_strategy("nn.conv2d", conv2d_strategy)
            self._register_codegen(includes='#include "npu.h"', sources=("npu.h", "npu.c"))

        @property
        def target_name(self):
            return "npu"

The compiler uses only the frozen record that `UMABackend.accelerator` returns.

Source: TVM RFC 0060 (UMA), "UMABackend References".
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product

from penstock.backends.accelerator import (
    Accelerator,
    AcceleratorTarget,
    Codegen,
    NamedPattern,
    OpenChoice,
    SourceFiles,
)
from penstock.backends.description import backend_code, name_of, required_facts
from penstock.backends.implementations import strategy_record
from penstock.backends.offload import claimed
from penstock.backends.offloaded import Offloaded
from penstock.backends.partition import with_settings
from penstock.backends.uma import checks
from penstock.backends.uma.registration import Registration
from penstock.backends.uma.registrations import (
    Files,
    Judge,
    read_sources,
    resolved_memories,
    values,
)
from penstock.errors import BackendError
from penstock.hardware.load import load_target
from penstock.hardware.target import Target
from penstock.ir.graph import Graph, Node
from penstock.passes.order import PASSES, run_passes
from penstock.program.program import Program

REGISTERED: dict[str, UMABackend] = {}  # The backends registered in this process, by target name.


class UMABackend(Registration):
    """Description of an accelerator; derived classes register its features in `__init__`.

    `help` omits methods whose names begin with an underscore.  These are the methods that
    register features; help(UMABackend._register_pattern), for example, explains one:

        _register_target_attr         an attribute that users set, such as a number of lanes
        _register_graph_pass          a pass over the graph; _register_relay_pass is an alias
        _register_pattern             nodes that run as one, and an optional predicate
        _register_constraint          a condition on every match
        _register_operator_strategy   the implementations of a pattern or operator (`OpStrategy`)
        _register_tiler               the tiler of a pattern or operator
        _register_memory              a memory of the accelerator
        _register_roofline            the cost model of implementations without a cost function
        _register_program_pass        a pass over the program; _register_tir_pass is an alias
        _register_codegen             driver sources, and C calls or command streams
        _register_region              how calls of a compiler region become one
        _register_instances           the driver function that selects an instance
        _register_wait                the driver function that waits for queued calls

    merge_compiler_regions: whether adjacent composites (matched nodes as single nodes) join into
        regions.  Consecutive calls of a region run as one call.  With command streams, they share
        one stream; in C, the function given to `_register_region` merges their commands.  If
        False, every composite is a region of its own (RFC 0060, "Configuration").

    >>> class Npu(UMABackend):
    ...     target_name = "npu"
    >>> Npu().accelerator().name
    'npu'
    """

    def __init__(self, merge_compiler_regions: bool = True) -> None:
        self._registered.merge_compiler_regions = merge_compiler_regions

    def register(self, *, replace: bool = False) -> None:
        """Register the accelerator in this process.

        The accelerator takes precedence over one of the same name from an installed package.  It
        replaces an accelerator that the same class registered before; an earlier definition of the
        class in a notebook counts as the same class.  Source: RFC 0060, "Using a Custom Backend".

        replace: whether the accelerator may also replace one of the same name that another class
            registered, such as another class derived from the same backend.

        >>> class Npu(UMABackend):
        ...     target_name = "npu"
        >>> Npu().register()
        >>> "npu" in REGISTERED
        True
        >>> del REGISTERED["npu"]

        Raises BackendError if another class has registered the name and `replace` is False."""
        self._check_target_name()
        other = REGISTERED.get(self.target_name)
        if other is not None and other._identity != self._identity and not replace:
            raise checks.name_clash(
                self.target_name,
                self._place,
                (other._identity, self._identity),
                "replace the registered one: register(replace=True)",
            )
        REGISTERED[self.target_name] = self

    def partition(
        self,
        graph: Graph,
        attributes: Mapping[str, object] | None = None,
        chip: Target | None = None,
    ) -> Graph:
        """Return the graph after the accelerator's graph passes, with matched nodes as composites.

        The graph is simplified first, as the compiler does.  A composite is a single node that
        contains the nodes matched by a pattern.  The result can be compiled: `penstock.compile`
        accepts it as a model, and opens the accelerator, which must be registered or installed,
        with these attributes.  Composites without an implementation then run on the processor.

        attributes: values that override the defaults of the accelerator's attributes.
        chip: the target to which the accelerator is attached; by default the host.

        Source: RFC 0060, "Using a Custom Backend".

        >>> from penstock.backends.pattern import is_constant, is_op, wildcard
        >>> from penstock.zoo.registry import open_zoo
        >>> class Npu(UMABackend):
        ...     target_name = "npu"
        >>> npu = Npu()
        >>> npu._register_pattern("conv2d", is_op("nn.conv2d")(wildcard(), is_constant()))
        >>> [node.name for node in npu.partition(open_zoo("zoo:lenet5")).nodes[:4]]
        ['conv1', 'pool1', 'conv2', 'pool2']
        """
        accelerator = self.accelerator(attributes, chip)
        graph, _ = claimed(run_passes(graph, PASSES), accelerator)
        return with_settings(graph, accelerator)

    def accelerator(
        self, attributes: Mapping[str, object] | None = None, chip: Target | None = None
    ) -> Accelerator:
        """Return the frozen record that describes the accelerator to the compiler.

        attributes: the values that the user set; other attributes have their defaults.
        chip: the target to which the accelerator is attached; by default the host.

        >>> class Npu(UMABackend):
        ...     target_name = "npu"
        >>> npu = Npu()
        >>> npu._register_target_attr("lanes", default=8)
        >>> npu.accelerator({"lanes": 16}).target.attrs["lanes"]
        16

        Raises BackendError if the description is invalid for the chip and the attributes, and
        UsageError if an attribute is unknown or its value invalid."""
        self._check_target_name()
        chip = chip or load_target("host")
        checks.check_engine_name(self.target_name, chip, self._place)
        own, name = self._registered, self.target_name
        set_values = values(
            name, own.attributes, attributes or {}, f"accelerator {name}", own.ranges
        )
        memories = resolved_memories(own.memories, set_values, chip, self._place)
        target = AcceleratorTarget(name, set_values, chip, memories, tuple(reversed(own.tilers)))
        return Accelerator(
            target,
            tuple(
                NamedPattern(
                    one.name,
                    one.pattern,
                    one.predicate and _on_nodes(one.predicate, target),
                    one.wide_weights,
                )
                for one in own.patterns
            ),
            tuple(strategy_record(s.op, s.function, s.level, own.roofline) for s in own.strategies),
            tuple(own.graph_passes),
            tuple(own.program_passes),
            tuple(_on_nodes(judge, target) for judge in own.constraints),
            self._codegen(target),
            own.merge_compiler_regions,
            tuple(self._open_choices(attributes or {}, chip)),
        )

    def _open_choices(self, given: Mapping[str, object], chip: Target) -> Iterator[OpenChoice]:
        """Yield the alternatives to the accelerator that messages propose if memory is too small.

        They differ from it in the attributes that the user did not set.  If two of these have two
        choices each, there are three alternatives: all combinations but that of the defaults.
        Attributes without registered choices keep their defaults.

        given: the attributes that the user set, which do not change.
        chip: the target to which the accelerator is attached."""
        own = self._registered
        names = [name for name in own.attributes if name not in given]
        for found in product(*(own.choices[name].items() for name in names)):
            changed = {
                name: (value, note)
                for name, (value, note) in zip(names, found, strict=True)
                if value != own.attributes[name]
            }
            if changed:
                attributes = {**given, **{name: value for name, (value, _) in changed.items()}}
                words = ",".join(f"{name}={value}" for name, value in attributes.items())
                note = ", ".join(note for _, note in changed.values() if note)
                text = f"{self.target_name}:{words}"
                make = partial(self.accelerator, attributes, chip)
                yield OpenChoice(text, note, make, changed.keys() <= own.searched)

    @property
    def _identity(self) -> str:
        """The module and qualified name of the class, by which a redefined class is recognised.

        In a notebook, a cell that runs twice defines two classes, both with the same identity."""
        return f"{type(self).__module__}.{type(self).__qualname__}"

    def _check_target_name(self) -> None:
        checks.check_target_name(self.target_name, type(self).__name__)

    def _codegen(self, target: AcceleratorTarget) -> Codegen:
        own, hook = self._registered.codegen, self._registered.codegen.includes
        includes = partial(self._includes, hook, target) if callable(hook) else hook or ""
        self._check_includes(includes)
        sources = own.sources
        if callable(sources):
            sources = partial(self._sources, sources, target)
        more = self._registered.region, self._registered.select, self._registered.wait
        hooks = own.replace_call_extern, own.encoder, own.driver
        return Codegen(own.fmt, includes, *hooks, sources, *more)

    def _includes(
        self, hook: Callable[..., str], target: AcceleratorTarget, program: Program
    ) -> str:
        with backend_code("function includes", self._codegen_place):
            text = hook(*required_facts(hook, (target, program)))
        self._check_includes(text)
        return text

    def _sources(
        self, hook: Callable[..., Files], target: AcceleratorTarget, program: Program
    ) -> SourceFiles:
        with backend_code("function sources", self._codegen_place):
            files = hook(*required_facts(hook, (target, program)))
        return read_sources(files, self._bases, self._codegen_place)

    @property
    def _codegen_place(self) -> str:
        return f"{self._place}, code generation"

    def _check_includes(self, found: object) -> None:
        """Raise BackendError unless `found` is C code in a str, or a function."""
        if not isinstance(found, str) and not callable(found):
            raise BackendError(
                "backend-047",
                f"includes is {found!r:.60}, must be C code in a str",
                where=self._codegen_place,
                help="pass the lines that include the driver's header, or a function that returns "
                "them",
            )


def registered() -> Mapping[str, UMABackend]:
    """Return the backends registered in this process, by target name."""
    return dict(REGISTERED)


def _on_nodes(judge: Judge, target: AcceleratorTarget) -> Callable[[Node], bool | str]:
    """Convert a constraint or predicate to a function that takes a composite node.

    judge: the constraint or predicate of the backend, which takes an `Offloaded` (node and target).
    target: the accelerator.

    The result has the name and the docstring of `judge`, because messages quote them."""

    def judged(node: Node) -> bool | str:
        return judge(Offloaded(node, target))

    functools.update_wrapper(judged, judge)
    judged.__name__ = name_of(judge)
    judged.__doc__ = inspect.getdoc(judge)
    return judged
