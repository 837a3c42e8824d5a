"""Ray's token authentication: whether a cluster wants a token, and whether this machine has it.

Ray itself sends a token only with `RAY_AUTH_MODE=token`, whatever the cluster wants, and else tries in vain for twenty
seconds.
"""

import os
from pathlib import Path

from kartrl.errors import UserError

MODE, TOKEN, FILE = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"  # Ray's environment variables
METHOD = "/ray.rpc.NodeInfoGcsService/GetClusterId"  # the first that Ray itself calls
ANSWER_SECONDS = 5.0  # for a cluster to answer


def use_token(address: str) -> None:
    """Have Ray send this machine's token to the cluster at this address, if that wants one.

    Call it before Ray is imported.

    Raises:
        UserError: this machine has no token or another one, or its settings of Ray exclude the cluster's.
    """
    wanted, mode = _refuses(address, None), os.environ.get(MODE, "").lower()
    if wanted is False and mode == "token":
        raise UserError(f"the cluster takes no tokens, but {MODE} is token here; unset it")
    if not wanted or mode not in ("", "token", "disabled"):
        return
    if mode == "disabled":
        raise UserError(f"the cluster wants a token, but {MODE} is disabled here; unset it")
    token, source = _own_token()
    if not token:
        raise UserError(
            f"the cluster wants a token, and there is none in {source}; copy that file from the "
            f"cluster's head, or set {TOKEN}"
        )
    if _refuses(address, token):
        raise UserError(f"the cluster wants another token than that in {source}; copy it from its head")
    os.environ[MODE] = "token"


def _own_token() -> tuple[str, str]:
    """This machine's token, "" if there is none, and where it is looked for, in Ray's order."""
    if token := os.environ.get(TOKEN, "").strip():
        return token, TOKEN
    file = Path(os.environ.get(FILE) or Path.home() / ".ray" / "auth_token")
    try:
        return file.read_text(encoding="utf-8").strip(), str(file)
    except (OSError, UnicodeDecodeError):
        return "", str(file)


def _refuses(address: str, token: str | None) -> bool | None:
    """Whether the cluster refuses a call with this token, or without; None if it does not say so."""
    import grpc

    metadata = None if token is None else [("authorization", f"Bearer {token}")]
    with grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)]) as channel:
        try:
            channel.unary_unary(METHOD)(b"", timeout=ANSWER_SECONDS, metadata=metadata)
        except grpc.RpcError as error:
            return True if error.code() == grpc.StatusCode.UNAUTHENTICATED else None
    return False
