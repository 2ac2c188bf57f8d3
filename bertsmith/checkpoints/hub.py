"""A directory -> a repository on the Hugging Face Hub, private unless asked otherwise.

All is done by huggingface_hub; here its errors become one line each, and what would fail is refused
before the work that it is needed for. It does not know what the files are.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

from huggingface_hub import HfApi, get_token
from huggingface_hub import errors as hub_errors
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

# Whatever HTTP client huggingface_hub was built on: what it raises where no answer comes.
_NO_ANSWER = cast(
    tuple[type[Exception], ...], (*hub_errors.HfHubHTTPError.__bases__, OSError, RuntimeError)
)
_MEANINGS = {
    401: "the token is not valid: log in again with `hf auth login`, or set HF_TOKEN",
    403: "the token may not write there: make one with write access to this name",
    404: "there is no such user or organisation, or the token may not see it",
    429: "too many requests: wait and push again",
}


def check(repo_id: str) -> None:
    """Raises ValueError for a name that is no USER/NAME, and where no token is found."""
    try:
        validate_repo_id(repo_id)
    except hub_errors.HFValidationError as error:
        raise ValueError(f"{repo_id!r} is no name on the Hub ({error}); use USER/NAME") from error
    if repo_id.count("/") != 1:
        raise ValueError(f"{repo_id!r} is no name on the Hub: expected USER/NAME")
    if get_token() is None:
        raise ValueError(
            f"no token to write to {repo_id}: run `hf auth login`, or set HF_TOKEN to a token with "
            f"write access (https://huggingface.co/settings/tokens)"
        )


def push(directory: Path, repo_id: str, *, is_private: bool = True) -> str:
    """Uploads every file of the directory in one commit and returns the repository's address.

    The repository is made where there is none. Files of the same names are replaced there, others
    stay. Raises ValueError as `check`, and for a repository that is there already and public for a
    private upload, or private for a public one; OSError where the Hub refuses or does not answer.
    """
    check(repo_id)
    api = HfApi()
    try:
        address = api.create_repo(repo_id, private=is_private, exist_ok=True)
        is_found_private = bool(api.model_info(repo_id).private)
        if is_private and not is_found_private:
            raise ValueError(
                f"{repo_id} is public already: choose another name, or upload publicly (--public)"
            )
        if is_found_private and not is_private:
            # Made public here, it would also show the files that it holds already.
            raise ValueError(
                f"{repo_id} is private already: make it public at {address}/settings first, choose "
                f"another name, or upload privately (without --public)"
            )
        api.upload_folder(
            repo_id=repo_id,
            folder_path=directory,
            commit_message=f"Upload {directory.name}",
        )
    except _NO_ANSWER as error:
        raise OSError(f"{repo_id} was not uploaded: {_reason(error)}") from error
    return str(address)


def _reason(error: BaseException) -> str:
    """One line, for the first error of the chain that tells something."""
    while isinstance(error, RuntimeError) and error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, hub_errors.HfHubHTTPError):
        status = error.response.status_code
        said = (error.server_message or "").strip()
        return f"{_MEANINGS.get(status, f'the Hub answered {status}')}{f' ({said})' * bool(said)}"
    told = str(error).strip().splitlines() or [type(error).__name__]
    return f"the Hub gave no answer ({told[0]})"
