"""How what a registry knows is typed on the command line: one word, `name`, `name:ARGUMENTS` or
`module:Name`."""

from collections.abc import Callable
from typing import Annotated, Any

import tyro
from tyro.constructors import (
    ConstructorRegistry,
    PrimitiveConstructorSpec,
    PrimitiveTypeInfo,
    StructConstructorSpec,
    StructFieldSpec,
    StructTypeInfo,
)

from multistep.dynamics import AbstractArchitecture, NetworkConfig
from multistep.losses import LOSSES, AbstractLoss, AbstractWeights, describe_weights, parse_weights
from multistep.training import CURRICULA, AbstractCurriculum

REGISTRY = ConstructorRegistry()
TYPED: dict[type, tuple[str, Callable[[str], Any], Callable[[Any], str]]] = {
    AbstractWeights: ("WEIGHTS", parse_weights, describe_weights),
    AbstractLoss: ("LOSS", LOSSES.find, LOSSES.describe),
    AbstractCurriculum: ("CURRICULUM", CURRICULA.find, CURRICULA.describe),
}


@REGISTRY.primitive_rule
def _typed_as_a_word(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    if info.type not in TYPED:
        return None
    name, parse, describe = TYPED[info.type]  # pyright: ignore[reportArgumentType]
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=name,
        instance_from_str=lambda words: parse(words[0]),
        is_instance=lambda value: isinstance(value, info.type),
        str_from_instance=lambda value: [describe(value)],
    )


@REGISTRY.struct_rule
def _network_by_its_fields(info: StructTypeInfo) -> StructConstructorSpec | None:
    """Our own architecture is typed field by field; another one has an option of its own."""
    if info.type is not AbstractArchitecture:
        return None
    default = info.default if isinstance(info.default, NetworkConfig) else NetworkConfig()
    kind: Any = Annotated[NetworkConfig, tyro.conf.arg(name="")]
    network = StructFieldSpec("network", kind, default)
    return StructConstructorSpec(instantiate=lambda network: network, fields=(network,))
