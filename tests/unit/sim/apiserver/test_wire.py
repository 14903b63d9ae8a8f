"""Objects as Go's clients send them: protobuf."""

import base64

import yaml

from muster.sim.apiserver import wire

_CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: boats, singular: boat, kind: Boat, listKind: BoatList, shortNames: [bt]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.oars, statusReplicasPath: .status.oars}
    additionalPrinterColumns: [{name: Sails, type: integer, jsonPath: .spec.sails}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [sails]
            properties:
              sails: {type: integer, minimum: 1, maximum: 12.5, default: 3}
              oars: {type: integer, format: int32}
              rig: {type: string, enum: [sloop, ketch]}
              crew:
                type: array
                maxItems: 9
                items: {type: object, properties: {name: {type: string, minLength: 1}}}
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
              flags: {type: object, additionalProperties: {type: string}}
              loose: {type: object, additionalProperties: true}
              any: {x-kubernetes-preserve-unknown-fields: true}
              depth: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}
            x-kubernetes-validations: [{rule: self.sails > 0, message: a boat sails}]
          status: {type: object, x-kubernetes-preserve-unknown-fields: true, nullable: true}
"""
# The same, written by the serializer of client-go v0.36.
_BYTES = base64.b64decode(
    """
azhzAAozChdhcGlleHRlbnNpb25zLms4cy5pby92MRIYQ3VzdG9tUmVzb3VyY2VEZWZpbml0aW9uEpEICiEKEWJvYXRzLmV4
YW1wbGUuY29tEgAaACIAKgAyADgAQgAS3QcKC2V4YW1wbGUuY29tGiEKBWJvYXRzEgRib2F0GgJidCIEQm9hdCoIQm9hdExp
c3QiCk5hbWVzcGFjZWQ6nAcKAnYxEAEYASLKBgrHBgoAEgAiACoGb2JqZWN0MgA6AFAAYAB6AJABAOoB6wUKBHNwZWMS4gUK
ABIAIgAqBm9iamVjdDIAOgBQAGAAegCQAQC6AQVzYWlsc+oBKAoDYW55EiEKABIAIgAqADIAOgBQAGAAegCQAQCoAgCwAgG4
AgDAAgDqAZYBCgRjcmV3Eo0BCgASACIAKgVhcnJheTIAOgBQAGAAegCAAQmQAQDCAVcKVQoAEgAiACoGb2JqZWN0MgA6AFAA
YAB6AJABAOoBLgoEbmFtZRImCgASACIAKgZzdHJpbmcyADoAUABgAHABegCQAQCoAgC4AgDAAgCoAgC4AgDAAgCoAgC4AgDA
AgDKAgRuYW1l0gIDbWFw6gF2CgVkZXB0aBJtCgASACIAKgAyADoAUABgAHoAkAEA2gElCgASACIAKgdpbnRlZ2VyMgA6AFAA
YAB6AJABAKgCALgCAMACANoBJAoAEgAiACoGc3RyaW5nMgA6AFAAYAB6AJABAKgCALgCAMACAKgCALgCAMACAeoBWAoFZmxh
Z3MSTwoAEgAiACoGb2JqZWN0MgA6AFAAYAB6AJABAPIBKAgBEiQKABIAIgAqBnN0cmluZzIAOgBQAGAAegCQAQCoAgC4AgDA
AgCoAgC4AgDAAgDqATIKBWxvb3NlEikKABIAIgAqBm9iamVjdDIAOgBQAGAAegCQAQDyAQIIAagCALgCAMACAOoBMgoEb2Fy
cxIqCgASACIAKgdpbnRlZ2VyMgVpbnQzMjoAUABgAHoAkAEAqAIAuAIAwAIA6gFDCgNyaWcSPAoAEgAiACoGc3RyaW5nMgA6
AFAAYAB6AJABAKIBCQoHInNsb29wIqIBCQoHImtldGNoIqgCALgCAMACAOoBRQoFc2FpbHMSPAoAEgAiACoHaW50ZWdlcjIA
OgBCAwoBM0kAAAAAAAApQFAAWQAAAAAAAPA/YAB6AJABAKgCALgCAMACAKgCALgCAMACAOICIgoOc2VsZi5zYWlscyA+IDAS
DGEgYm9hdCBzYWlscxoAKgDqATEKBnN0YXR1cxInCgASACIAKgZvYmplY3QyADoAUABgAHoAkAEAqAIBsAIBuAIAwAIAqAIA
uAIAwAIAKh4KABIaCgouc3BlYy5vYXJzEgwuc3RhdHVzLm9hcnMyIwoFU2FpbHMSB2ludGVnZXIaACIAKAAyCy5zcGVjLnNh
aWxzOABQABoMEggKABIAIgAqACAAGgAiAA==
    """
)


def test_a_definition_is_read_with_all_of_its_schema() -> None:
    read = wire.decoded(_BYTES)
    sent = yaml.safe_load(_CRD)
    assert (read["kind"], read["metadata"]["name"]) == (sent["kind"], sent["metadata"]["name"])
    assert read["spec"] == sent["spec"]
