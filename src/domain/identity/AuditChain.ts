import { Result } from "effect"
import { createHash } from "node:crypto"
import { formatTimestamp } from "../Time.ts"
import type { ChainedAuditEntry } from "./ChainedAuditEntry.ts"

/** The digest before the first entry of a chain. */
export const CHAIN_START = "0".repeat(64)

/**
 * The SHA-256, in hexadecimal, that stands at the entry's position. The database computes the same digest of the same
 * text when it writes the entry (`auditWrites`). The order of the members of `detail` counts: an export must
 * be verified as it was written.
 */
export const entryDigest = (entry: Omit<ChainedAuditEntry, "digest">): string =>
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
  readonly first: ChainedAuditEntry
  readonly last: ChainedAuditEntry
  readonly count: number
}

/** Verifies the next entry of an export; `verified` is undefined for the first. A failure is a sentence that names the difference. */
export const verifyEntry = (
  verified: VerifiedChain | undefined,
  entry: ChainedAuditEntry
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
export const digestAt = (entry: ChainedAuditEntry, position: number): string | undefined => {
  if (entry.position === position) return entry.digest
  return entry.position === position + 1 ? entry.previous_digest : undefined
}
