"""What all sections of the configuration share."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

AutoInt = Annotated[int, Field(ge=1)] | Literal["auto"]


class Section(BaseModel):
    """What all sections share: values are fixed once read, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
