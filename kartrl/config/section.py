"""Types and limits that the sections of the configuration share."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


def split_words(value: Any) -> Any:
    """The words of a text, separated by spaces or commas; any other value is returned unchanged."""
    return value.replace(",", " ").split() if isinstance(value, str) else value


# No run on one machine reaches these bounds; they keep an untrusted configuration from exhausting the machine.
Count = Annotated[int, Field(ge=1, le=65_536)]
AutoInt = Count | Literal["auto"]
DAY = 86_400.0  # seconds
YEAR = 527_040.0  # minutes

# No network of this kind reaches these bounds; they keep an untrusted configuration from exhausting the memory.
Numbers = Annotated[
    tuple[Annotated[int, Field(ge=1, le=65_536)], ...], BeforeValidator(split_words), Field(max_length=16)
]
Actions = Annotated[
    tuple[Annotated[int, Field(ge=0, le=4095)], ...], BeforeValidator(split_words), Field(max_length=4096)
]
Words = Annotated[tuple[str, ...], BeforeValidator(split_words), Field(max_length=4096)]


class Section(BaseModel):
    """Base class of all sections: frozen, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
