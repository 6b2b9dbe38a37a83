"""Shapes in signatures: jaxtyping's where it is installed, plain tensors where it is not.

`Float[Tensor, " n *feature"]` is checked while the tests run and is documentation otherwise, so the
library itself does not depend on jaxtyping.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Annotated as Bool
    from typing import Annotated as Float
    from typing import Annotated as Int
    from typing import Annotated as Shaped
else:
    try:
        from jaxtyping import Bool, Float, Int, Shaped
    except ImportError:

        class _Unchecked:
            def __class_getitem__(cls, item: tuple[Any, str]) -> Any:
                return item[0]

        Bool = Float = Int = Shaped = _Unchecked

__all__ = ["Bool", "Float", "Int", "Shaped"]
