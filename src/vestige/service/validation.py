"""What is wrong with a parameter or a body, said without repeating it.

FastAPI's own answer has the input in it, and names members of the input that are not known.
Guarantee: nothing that was sent is in the sentence; held by tests/service/test_validation.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vestige.service import models
from vestige.service.problems import RefusalError

_SAFE = (
    "missing",
    "extra_forbidden",
    "bool_parsing",
    "bool_type",
    "finite_number",
    "float_type",
    "greater_than",
    "greater_than_equal",
    "int_parsing",
    "int_type",
    "less_than",
    "less_than_equal",
    "list_type",
    "literal_error",
    "string_pattern_mismatch",
    "string_too_long",
    "string_too_short",
    "string_type",
    "too_long",
    "too_short",
)
"""Kinds of errors whose sentence is about what is expected, not about what was sent."""
_PLACES = ("body", "header", "path", "query")
_PARAMETERS = ("after", "dry_run", "idempotency-key", "key", "limit", "name", "values")
_KNOWN = {*_PLACES, *_PARAMETERS, *models.Definition.model_fields, *models.RemovalRequest.model_fields}


def explain(errors: Sequence[Mapping[str, Any]]) -> RefusalError:
    """Explain the first error that the validation of a request has found.

    Args:
        errors: the errors, as pydantic lists them.

    Returns:
        The refusal.

    Example:
        >>> error = {"loc": ("query", "limit"), "type": "int_parsing", "msg": "Input should be a valid integer"}
        >>> explain([error]).detail
        'query limit: Input should be a valid integer; see /openapi.json'
    """
    found = errors[0] if errors else {}
    kind = found.get("type")
    if kind == "json_invalid":
        return RefusalError(422, "the body is not JSON; see /openapi.json")
    parts = [str(part) for part in found.get("loc", ()) if isinstance(part, int) or part in _KNOWN]
    said = found.get("msg", "") if kind in _SAFE else "it is not of its kind"
    if kind == "extra_forbidden":
        said = "it has a member that is not known"
    return RefusalError(422, f"{' '.join(parts[:4]) or 'the request'}: {said}; see /openapi.json")
