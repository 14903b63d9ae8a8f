"""What expressions may name: Google's C++ implementation of CEL, with Kubernetes' functions."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_math, ext_optional, ext_strings

from muster.api.cel_library import FUNCTIONS, Function


@lru_cache(maxsize=64)
def environment(variables: tuple[str, ...]) -> Any:
    """In which these variables, of any type, are declared, and all functions."""
    extensions = [
        ext_strings.ExtStrings(),
        ext_optional.ExtOptional(),
        ext_bindings.ExtBindings(),
        ext_math.ExtMath(),
        cel.CelExtension("kubernetes", [_declared(function) for function in FUNCTIONS]),
    ]
    declared = dict.fromkeys(variables, cel.Type.DYN)
    return cel.NewEnv(variables=declared, extensions=extensions)


_TYPES: Final[Mapping[str, Any]] = {
    "dyn": cel.Type.DYN,
    "bool": cel.Type.BOOL,
    "int": cel.Type.INT,
    "double": cel.Type.DOUBLE,
    "string": cel.Type.STRING,
    "list": cel.Type.List(cel.Type.DYN),
}


def _declared(function: Function) -> Any:
    overloads = [
        cel.Overload(
            f"{function.name}_{'_'.join(signature.takes)}",
            return_type=_TYPES[signature.gives],
            parameters=[_TYPES[name] for name in signature.takes],
            is_member=function.is_member,
            impl=signature.act,
        )
        for signature in function.signatures
    ]
    return cel.FunctionDecl(function.name, overloads)
