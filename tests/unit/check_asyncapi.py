#!/usr/bin/env python3
"""docs/asyncapi.yaml has the shape of an AsyncAPI 2.6 document, and every reference leads somewhere."""
import pathlib
import sys

import jsonschema
import yaml

root = pathlib.Path(__file__).resolve().parents[2]
doc = yaml.safe_load((root / "docs/asyncapi.yaml").read_text())


def resolve(ref):
    node = doc
    assert ref.startswith("#/"), ref
    for part in ref[2:].split("/"):
        node = node[part]
    return node


def references(node):
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"]
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


assert doc["asyncapi"] == "2.6.0"
assert {"title", "version"} <= doc["info"].keys()
assert set(doc["channels"]) == {
    "payment-events", "reservation-events", "transfer-events", "membership-events", "payment-commands"}
for ref in references(doc):
    resolve(ref)

in_channels = set()
for channel in doc["channels"].values():
    assert channel["subscribe"]["message"]["oneOf"], channel
    in_channels |= {m["$ref"].rsplit("/", 1)[1] for m in channel["subscribe"]["message"]["oneOf"]}
assert in_channels == set(doc["components"]["messages"])

for name in in_channels:
    schema = doc["components"]["schemas"][name]
    schema = {**schema, "properties": {**schema["properties"],
                                       "timestamp": doc["components"]["schemas"]["timestamp"]}}
    jsonschema.Draft7Validator.check_schema(schema)

refund = {"type": "PAYMENT_REFUNDED", "paymentId": "p", "orderId": None, "timestamp": 1795006271042}
validator = jsonschema.Draft7Validator(
    {**doc["components"]["schemas"]["PAYMENT_REFUNDED"], "components": doc["components"]})
validator.validate(refund)
assert not validator.is_valid({**refund, "amount": 1.5})
assert not validator.is_valid({**refund, "userId": ""})
assert not validator.is_valid({**refund, "paymentType": "gift"})
sys.exit(0)
