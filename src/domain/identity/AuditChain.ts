import { Result, Schema } from "effect"
import { createHash } from "node:crypto"
import { AuditEntryId, OrgId } from "../Ids.ts"
import { Actor } from "./Principal.ts"
import { timestamp, Timestamp, formatTimestamp } from "../Time.ts"

const Digest = Schema.String.check(Schema.isPattern(/^[0-9a-f]{64}$/, { expected: "64 hexadecimal digits" }))
const Position = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

/** A line of an export of the audit log: an entry with its place in the organization's hash chain. */
export const ChainedEntry = Schema.Struct({
  org_id: OrgId,
  position: Position,
  id: AuditEntryId,
  /** Not only the known actions: a later version of the service may have added some. */
  action: Schema.String,
  target_id: Schema.String,
  actor: Schema.NullOr(Actor),
  occurred_at: timestamp("When the change was made."),
  request_id: Schema.NullOr(Schema.String),
  detail: Schema.Record(Schema.String, Schema.Json),
  previous_digest: Digest,
  digest: Digest
})
export type ChainedEntry = typeof ChainedEntry.Type

/** A position of an organization's chain, to be kept where the service and its database cannot change it. */
export const AuditCheckpoint = Schema.Struct({
  org_id: OrgId,
  position: Position,
  digest: Digest,
  created_at: Timestamp
})
export type AuditCheckpoint = typeof AuditCheckpoint.Type

/** The digest before the first entry of a chain. */
export const CHAIN_START = "0".repeat(64)

/**
 * The SHA-256, in hexadecimal, that stands at the entry's position. The database computes the same digest of the same
 * text in the transaction of the change (migration 0038). The order of the members of `detail` counts: an export must
 * be verified as it was written.
 */
export const entryDigest = (entry: Omit<ChainedEntry, "digest">): string =>
  createHash("sha256")
    .update(
      JSON.stringify([
        entry.previous_digest,
        entry.position,
        entry.org_id,
        entry.id,
        entry.action,
        entry.target_id,
        entry.actor?.id ?? null,
        entry.actor?.name ?? null,
        formatTimestamp(entry.occurred_at),
        entry.request_id,
        entry.detail
      ])
    )
    .digest("hex")

/** What verifying an export has found so far. */
export interface VerifiedChain {
  readonly first: ChainedEntry
  readonly last: ChainedEntry
  readonly count: number
}

/** Verifies the next entry of an export; `verified` is undefined for the first. A failure is a sentence that names the difference. */
export const verifyEntry = (
  verified: VerifiedChain | undefined,
  entry: ChainedEntry
): Result.Result<VerifiedChain, string> => {
  const last = verified?.last
  if (last !== undefined && entry.org_id !== last.org_id) {
    return Result.fail(
      `Entry ${entry.id} belongs to another organization. Verify one organization at a time.`
    )
  }
  if (last !== undefined && entry.position !== last.position + 1) {
    return Result.fail(
      `Position ${entry.position} follows position ${last.position}: entries are missing or in another order.`
    )
  }
  const previous = last?.digest ?? (entry.position === 1 ? CHAIN_START : entry.previous_digest)
  if (entry.previous_digest !== previous) {
    return Result.fail(`Entry ${entry.id} at position ${entry.position} does not continue the chain.`)
  }
  if (entryDigest(entry) !== entry.digest) {
    return Result.fail(`Entry ${entry.id} at position ${entry.position} was changed.`)
  }
  return Result.succeed({ first: verified?.first ?? entry, last: entry, count: (verified?.count ?? 0) + 1 })
}

/** The digest that an entry of the export has, or continues, at the position of a checkpoint; undefined if it is neither. */
export const digestAt = (entry: ChainedEntry, position: number): string | undefined => {
  if (entry.position === position) return entry.digest
  return entry.position === position + 1 ? entry.previous_digest : undefined
}
