"""GitHub's published GraphQL schema as a judge of queries and answers (npm `@octokit/graphql-schema`, graphql-core).

A query must validate. An answer must be what executing the query over it gives: every non-null is there, every enum,
number and flag is of its type.
"""

import json
from collections.abc import Iterator
from functools import cache

from graphql import (
    FieldNode,
    GraphQLAbstractType,
    GraphQLError,
    GraphQLResolveInfo,
    GraphQLSchema,
    InlineFragmentNode,
    build_client_schema,
    execute,
    parse,
    validate,
)

from tests.contract.described import NODE

FILE = NODE / "graphql-schema" / "schema.json"


@cache
def schema() -> GraphQLSchema:
    """Read the schema."""
    read = json.loads(FILE.read_bytes())
    return build_client_schema(read.get("data", read), assume_valid=True)


def faults_of_query(text: str) -> Iterator[str]:
    """Name what of a query the schema does not know."""
    try:
        document = parse(text, no_location=True)
    except GraphQLError as error:
        yield error.message
        return
    yield from (error.message for error in validate(schema(), document))


def faults_of_answer(text: str, variables: dict, data: dict) -> Iterator[str]:
    """Name what of an answer's data the schema does not know."""
    again = execute(
        schema(),
        parse(text, no_location=True),
        root_value=data,
        variable_values=variables,
        field_resolver=_by_its_name_in_the_answer,
        type_resolver=_by_its_fields,
    )
    yield from (f"{error.path}: {error.message}" for error in again.errors or ())
    if not again.errors and again.data != data:
        yield f"the schema gives {again.data}, and not {data}"


def _by_its_name_in_the_answer(source: dict, info: GraphQLResolveInfo, **_: object) -> object:
    return source[info.path.key]


def _by_its_fields(value: dict, info: GraphQLResolveInfo, _: GraphQLAbstractType) -> str:
    """Tell the type of a value: that of the fragment whose fields it has."""
    if "__typename" in value:
        return value["__typename"]
    for node in info.field_nodes[0].selection_set.selections:
        if isinstance(node, InlineFragmentNode):
            fields = [field for field in node.selection_set.selections if isinstance(field, FieldNode)]
            if {(field.alias or field.name).value for field in fields} <= set(value):
                return node.type_condition.name.value
    return "User"
