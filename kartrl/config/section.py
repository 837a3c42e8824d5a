"""What all sections of the configuration share."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

# Bounds that no run on one machine reaches keep a stranger's configuration from asking for all of it.
Count = Annotated[int, Field(ge=1, le=65_536)]
AutoInt = Count | Literal["auto"]
DAY = 86_400.0  # seconds
YEAR = 527_040.0  # minutes


class Section(BaseModel):
    """What all sections share: values are fixed once read, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
