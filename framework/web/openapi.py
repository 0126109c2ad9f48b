"""The REST surface described by OpenAPI 3.1, made from the list that is routed.

In: operations. Out: the document, as plain values. The schemas of answers are those of the classes that answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter

from framework import __version__
from framework.web.documents import ErrorMessage
from framework.web.operations import Operation, Parameter

JSON = "application/json"
OPENAPI = "/v1/openapi.json"
_REFUSALS = {
    400: "the request is wrong",
    401: "a token is needed",
    403: "the token may not do this",
    404: "there is none of this name",
    409: "it cannot be done as things stand",
    413: "the body is too large",
    415: "the body is not JSON",
    421: "the Host header does not name this server",
    501: "not possible from here",
    503: "the broker cannot be asked",
}


def refusals_of(operation: Operation) -> tuple[int, ...]:
    """Every status of an operation that is no success."""
    found = {401, 403, 421, 503, *operation.refuses}
    if operation.query or operation.has_body:
        found.add(400)
    if operation.has_body:
        found |= {413, 415}
    return tuple(sorted(found))


def describe(operations: Sequence[Operation]) -> dict[str, Any]:
    """The OpenAPI document."""
    definitions: dict[str, Any] = {}
    error = {"content": {JSON: {"schema": _schema(ErrorMessage, definitions)}}}
    paths: dict[str, Any] = {}
    for operation in operations:
        answer: dict[str, Any] = {"description": operation.about}
        if operation.returns is not None:
            answer["content"] = {JSON: {"schema": _schema(operation.returns, definitions)}}
        described: dict[str, Any] = {
            "operationId": operation.name,
            "summary": operation.about,
            "x-floe-role": operation.role.value,
            "security": [{"token": []}],
            "responses": {
                str(operation.status): answer,
                **{str(code): {"description": _REFUSALS[code], **error} for code in refusals_of(operation)},
            },
        }
        parameters = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
            for name in operation.path_names
        ]
        parameters += [_parameter(each) for each in operation.query]
        if parameters:
            described["parameters"] = parameters
        if operation.has_body:
            body = {"type": "object", "additionalProperties": {"type": "string"}}
            described["requestBody"] = {"required": True, "content": {JSON: {"schema": body}}}
        paths.setdefault(operation.path, {})[operation.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "floe",
            "version": __version__,
            "description": "Pipelines and tables of one control topic: floe's own view under /v1, and the shape of Kafka "
            "Connect's REST interface for the tools that speak it.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": definitions,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _schema(type_: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    made = TypeAdapter(type_).json_schema(mode="serialization", ref_template="#/components/schemas/{model}")
    definitions.update(made.pop("$defs", {}))
    if "title" in made and made.get("type") == "object" and "properties" in made:
        name = made["title"]
        definitions[name] = made
        return {"$ref": f"#/components/schemas/{name}"}
    return made


def _parameter(parameter: Parameter) -> dict[str, Any]:
    schema: dict[str, Any]
    if isinstance(parameter.default, int):
        schema = {"type": "integer", "minimum": 1, "maximum": parameter.most, "default": parameter.default}
    elif parameter.choices:
        schema = {"type": "string", "enum": list(parameter.choices)}
    else:
        schema = {"type": "string", "maxLength": parameter.most}
    if parameter.several:
        schema = {"type": "array", "items": schema}
    return {"name": parameter.name, "in": "query", "description": parameter.about, "schema": schema}
