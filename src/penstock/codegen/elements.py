"""Elements of the inputs and outputs of generated C: numeric limits, quantisation, printing."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.codegen import c_text
from penstock.ir.tensor import DType, Quantisation, TensorType

BYTES_AND_HALFWORDS = (DType.INT8, DType.UINT8, DType.INT16)


@dataclass(frozen=True, slots=True)
class Elements:
    """The elements of an input or output.

    quantisation: None for plain numbers, and where there is a scale for each channel."""

    dtype: DType
    quantisation: Quantisation | None

    @staticmethod
    def of(type: TensorType) -> Elements:
        """The elements of a tensor of this type."""
        q = type.quantisation
        plain = type.dtype in (DType.FLOAT32, DType.BOOL)
        single = q is not None and len(q.scales) == len(q.zero_points) == 1
        return Elements(type.dtype, q if single and not plain else None)

    @property
    def c_type(self) -> str:
        return c_text.C_TYPES[self.dtype]

    @property
    def size_bytes(self) -> int:
        """Bytes of one element."""
        return self.dtype.size_bytes

    @property
    def scale_literal(self) -> str:
        """The scale in C; "1.0f" without quantisation."""
        return c_text.real(self.quantisation.scales[0] if self.quantisation else 1.0)

    @property
    def zero_point(self) -> int:
        """The element that represents 0; 0 without quantisation."""
        return self.quantisation.zero_points[0] if self.quantisation else 0

    @property
    def zero_point_literal(self) -> str:
        """The zero point in C, in parentheses."""
        return f"({c_text.integer(self.zero_point)})"

    @property
    def narrow(self) -> bool:
        """Whether the elements are quantised and have at most 16 bits: the header's functions then
        convert in both directions."""
        return self.quantisation is not None and self.dtype in BYTES_AND_HALFWORDS

    @property
    def word(self) -> bool:
        """Whether the elements are quantised and have 32 bits: the header only dequantises them."""
        return self.quantisation is not None and self.dtype is DType.INT32

    @property
    def limits(self) -> str:
        """The smallest and the largest element of an integer type, as arguments of a C function."""
        return f"{self.dtype.lower}, {self.dtype.upper - 1}"

    def printed(self, element: str) -> str:
        """Arguments of printf that print one element, and a space after it."""
        match self.dtype:
            case DType.FLOAT32:
                return f'"%g ", (double){element}'
            case DType.INT32:
                return f'"%ld ", (long){element}'
            case DType.INT64:
                return f'"%lld ", (long long){element}'
            case _:
                return f'"%d ", {element}'
