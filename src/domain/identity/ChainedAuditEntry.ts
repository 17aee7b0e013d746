import { Schema } from "effect"
import { AuditEntryId, OrgId } from "../Ids.ts"
import { timestamp } from "../Time.ts"
import { Actor } from "./Principal.ts"

const Digest = Schema.String.check(Schema.isPattern(/^[0-9a-f]{64}$/, { expected: "64 hexadecimal digits" }))

/** A number of an entry in an organization's hash chain. The first entry has 1; 0 is the position before it. */
export const AuditPosition = Schema.Int.check(
  Schema.isGreaterThanOrEqualTo(0, { expected: "a whole number from 0" })
)

/** A line of an export of the audit log. */
export const ChainedAuditEntry = Schema.Struct({
  org_id: OrgId.annotateKey({ description: "The organization's ID, which is part of what is hashed." }),
  position: AuditPosition.annotateKey({
    description: "The number of the entry in the organization's chain, from 1 and without gaps."
  }),
  id: AuditEntryId.annotateKey({ description: "The entry's ID." }),
  // Not only the known actions: a later version of the service may have added some.
  action: Schema.String.annotateKey({ description: "The action, as in the list of entries." }),
  target_id: Schema.String.annotateKey({
    description: "The ID of the resource that was changed or exported."
  }),
  actor: Schema.NullOr(Actor).annotateKey({
    description: "The API key that acted. Null for the operator and for the service itself."
  }),
  occurred_at: timestamp("When the change was made."),
  request_id: Schema.NullOr(Schema.String).annotateKey({
    description: "The `x-request-id` of the request. Null if the change was not made by a request."
  }),
  detail: Schema.Record(Schema.String, Schema.Json).annotateKey({
    description: "What changed, without secrets. The order of its members is part of what is hashed."
  }),
  previous_digest: Digest.annotateKey({
    description: "The digest of the entry before, in hexadecimal; zeros for the first entry."
  }),
  digest: Digest.annotateKey({
    description: "The SHA-256 of the previous digest, the position and the entry, in hexadecimal."
  })
}).annotate({
  identifier: "ChainedAuditEntry",
  description: "An entry of the audit log with its place in the organization's hash chain."
})
export type ChainedAuditEntry = typeof ChainedAuditEntry.Type

/** A position of an organization's chain, to be stored where the service and its database cannot change it. */
export const AuditCheckpoint = Schema.Struct({
  org_id: OrgId.annotateKey({ description: "The organization's ID." }),
  position: AuditPosition.annotateKey({ description: "The newest position. 0 for an empty log." }),
  digest: Digest.annotateKey({ description: "The digest at this position; zeros for an empty log." }),
  created_at: timestamp("When the checkpoint was made.")
}).annotate({
  identifier: "AuditCheckpoint",
  description: "The newest position of the hash chain of the audit log."
})
export type AuditCheckpoint = typeof AuditCheckpoint.Type
