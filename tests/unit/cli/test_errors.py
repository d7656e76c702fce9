from __future__ import annotations

import pytest
from pydantic import BaseModel, Field, ValidationError

from cli.errors import BAD_INPUT, FAILED, explain
from sandbox.errors import BadRequest, BootFailed, DesktopLost, ImageError, MissingRequirement
from store.errors import DiskFull, HomeError, NotFound
from verigen.errors import BundleError


class Spec(BaseModel):
    width: int = Field(ge=160)


def raised(error: BaseException) -> BaseException:
    """The error as if it had come out of a call, with a traceback."""
    try:
        raise error
    except BaseException as caught:  # noqa: BLE001 - handed on as data
        return caught


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (BadRequest("no such point"), BAD_INPUT),
        (HomeError("no such place"), BAD_INPUT),
        (NotFound("no such row"), BAD_INPUT),
        (BundleError("no such bundle"), BAD_INPUT),
        (ValueError("no such number"), BAD_INPUT),
        (ImageError("no such image"), FAILED),
        (BootFailed("no such desktop"), FAILED),
        (DesktopLost("no such desktop any more"), FAILED),
    ],
)
def test_known_errors_speak_for_themselves(error: Exception, exit_code: int) -> None:
    failure = explain(raised(error))
    assert (failure.message, failure.exit_code) == (str(error), exit_code)
    assert failure.type == type(error).__name__


def test_a_missing_requirement_keeps_its_fix_apart() -> None:
    failure = explain(MissingRequirement("bubblewrap is not installed", fix="apt-get install bubblewrap"))
    assert (failure.message, failure.fix) == ("bubblewrap is not installed", "apt-get install bubblewrap")
    assert failure.exit_code == FAILED


def test_a_refused_model_names_each_field_in_one_line() -> None:
    with pytest.raises(ValidationError) as caught:
        Spec.model_validate({"width": 3})
    failure = explain(caught.value)
    assert failure.message == "Spec is not valid: width: Input should be greater than or equal to 160"
    assert failure.exit_code == BAD_INPUT


def test_an_operating_system_error_names_its_file() -> None:
    failure = explain(PermissionError(13, "Permission denied", "/somewhere/file"))
    assert (failure.message, failure.exit_code) == ("/somewhere/file: Permission denied", FAILED)


def test_of_a_group_the_first_error_is_told() -> None:
    inner = ExceptionGroup("inner", [DesktopLost("gone"), ValueError("other")])
    assert explain(ExceptionGroup("outer", [inner])).message == "gone"


def test_a_bug_says_that_it_is_one_and_where() -> None:
    failure = explain(raised(KeyError("oops")))
    assert "Unexpected KeyError: 'oops' (at test_errors.py:" in failure.message
    assert failure.message.endswith("This is a bug in Frontdesk.")
    assert failure.fix is not None
    assert "FRONTDESK_DEBUG=1" in failure.fix
    assert failure.exit_code == FAILED


def test_a_full_disk_is_not_called_a_bug() -> None:
    from pathlib import Path

    failure = explain(DiskFull(Path("/somewhere"), OSError(28, "No space left on device")))
    assert "frontdesk gc" in failure.message
    assert "bug" not in failure.message
