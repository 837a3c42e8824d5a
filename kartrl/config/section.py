"""Types and limits that the sections of the configuration share."""

import functools
import math
import os
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
)

from kartrl.config import chosen

_POWER_OF_TEN = re.compile(r"(?<![^\s,])[+-]?(?:\d[\d_]*\.?\d*|\.\d+)[eE]\+?\d{1,2}(?![^\s,])", re.ASCII)


def whole_numbers(text: str) -> str:
    """The text with integers such as 1e6 and 2.5e3 written as digits; everything else is unchanged."""

    def digits(match: re.Match[str]) -> str:
        number = Decimal(match[0])
        return str(int(number)) if number == int(number) else match[0]

    return _POWER_OF_TEN.sub(digits, text)


def split_words(value: Any) -> Any:
    """The words of a text, separated by spaces or commas; any other value is returned unchanged."""
    return value.replace(",", " ").split() if isinstance(value, str) else value


def _low_high(value: Any) -> Any:
    try:
        low, high = map(float, split_words(value))
    except (TypeError, ValueError):
        low = high = math.nan
    if not -math.inf < low < high < math.inf:
        raise ValueError("must be two numbers, LOW HIGH, such as -2 2,")
    return low, high


# No run on one machine reaches these bounds; they keep an untrusted configuration from exhausting the machine.
Count = Annotated[int, Field(ge=1, le=65_536)]
AutoInt = Count | Literal["auto"]
DAY = 86_400.0  # seconds
YEAR = 527_040.0  # minutes

# No network of this kind reaches these bounds; they keep an untrusted configuration from exhausting the memory.
Numbers = Annotated[
    tuple[Annotated[int, Field(ge=1, le=65_536)], ...], BeforeValidator(split_words), Field(max_length=16)
]
UserPath = Annotated[str, AfterValidator(os.path.expanduser)]  # ~ is the user's home folder
Actions = Annotated[
    tuple[Annotated[int, Field(ge=0, le=4095)], ...], BeforeValidator(split_words), Field(max_length=4096)
]
Bounds = Annotated[tuple[float, float], BeforeValidator(_low_high)]
Words = Annotated[tuple[str, ...], BeforeValidator(split_words), Field(max_length=4096)]


class Section(BaseModel):
    """Base class of all sections: frozen, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    fixed: ClassVar[bool] = False
    """Whether a resumed run must keep it as it was."""

    def changed_keys(self) -> list[str]:
        """Keys whose values are not the defaults."""
        default = type(self)()
        return [key for key in type(self).model_fields if getattr(self, key) != getattr(default, key)]

    @field_validator("*", mode="wrap")
    @classmethod
    def _as_written(cls, value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        """Integers may be given as 1e6, and what `auto` chose as auto (2)."""
        if not isinstance(value, str) or info.field_name is None:
            return handler(value)
        here = kinds(cls, info.field_name)
        found = chosen.TEXT.fullmatch(value) if "auto" in here else None
        text = value if found is None else found[1]
        result = handler(whole_numbers(text) if int in here else text)
        if found is None:
            return result
        return chosen.chosen(result) if isinstance(result, int | str) and result != "auto" else handler(value)


@functools.cache
def kinds(section: type[BaseModel], key: str) -> frozenset[Any]:
    """Types and literals in the annotation of a key."""
    return frozenset(part for part in _parts(section.model_fields[key].annotation) if isinstance(part, type | str))


def _parts(annotation: Any) -> Iterator[Any]:
    yield annotation
    for part in get_args(annotation):
        yield from _parts(part)
