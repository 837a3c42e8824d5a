"""What all sections of the configuration share."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


def split_words(value: Any) -> Any:
    """The words of a text, apart from each other by spaces or commas; anything else is left as it is."""
    return value.replace(",", " ").split() if isinstance(value, str) else value


# Bounds that no run on one machine reaches keep a stranger's configuration from asking for all of it.
Count = Annotated[int, Field(ge=1, le=65_536)]
AutoInt = Count | Literal["auto"]
DAY = 86_400.0  # seconds
YEAR = 527_040.0  # minutes

# Bounds that no network of this kind reaches keep a stranger's configuration from asking for all memory.
Numbers = Annotated[
    tuple[Annotated[int, Field(ge=1, le=65_536)], ...], BeforeValidator(split_words), Field(max_length=16)
]
Words = Annotated[tuple[str, ...], BeforeValidator(split_words), Field(max_length=4096)]


class Section(BaseModel):
    """What all sections share: values are fixed once read, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
