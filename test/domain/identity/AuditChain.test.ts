import { assert, describe, it } from "@effect/vitest"
import { DateTime, Result } from "effect"
import {
  CHAIN_START,
  entryDigest,
  type VerifiedChain,
  verifyEntry
} from "../../../src/domain/identity/AuditChain.ts"
import type { ChainedAuditEntry } from "../../../src/domain/identity/ChainedAuditEntry.ts"
import { AuditEntryId, KeyId, OrgId } from "../../../src/domain/Ids.ts"

const org_id = OrgId.make(`org_${"a".repeat(32)}`)

/** An entry that continues a chain, with its own correct digest. */
const append = (
  last: Pick<ChainedAuditEntry, "position" | "digest"> | undefined,
  changes: Partial<Omit<ChainedAuditEntry, "digest">> = {}
): ChainedAuditEntry => {
  const position = (last?.position ?? 0) + 1
  const entry = {
    org_id,
    position,
    id: AuditEntryId.make(`aud_${String(position).padStart(32, "0")}`),
    action: "key.created",
    target_id: `key_${"b".repeat(32)}`,
    actor: { id: KeyId.make(`key_${"c".repeat(32)}`), name: "Ada" },
    occurred_at: DateTime.makeUnsafe("2026-11-23T00:00:00Z"),
    request_id: "req_1",
    detail: { name: "agent" },
    previous_digest: last?.digest ?? CHAIN_START,
    ...changes
  }
  return { ...entry, digest: entryDigest(entry) }
}

/** What verification finds: the number of entries, or a sentence about the first that is wrong. */
const verify = (entries: ReadonlyArray<ChainedAuditEntry>): number | string => {
  let verified: VerifiedChain | undefined
  for (const entry of entries) {
    const result = verifyEntry(verified, entry)
    if (Result.isFailure(result)) return result.failure
    verified = result.success
  }
  return verified?.count ?? 0
}

describe("AuditChain", () => {
  const first = append(undefined)
  const second = append(first)
  const third = append(second)

  it("a chain is verified from its start, and from a later entry, as retention leaves it", () => {
    assert.strictEqual(verify([first, second, third]), 3)
    assert.strictEqual(verify([second, third]), 2)
  })

  it("an entry that was replaced together with its digest is found by the entry after it", () => {
    const forged = append(first, { actor: null })
    assert.strictEqual(verify([first, forged]), 2)
    assert.strictEqual(
      verify([first, forged, third]),
      `Entry ${third.id} at position 3 does not continue the chain.`
    )
  })

  it("a chain that was cut off and started again is found at its first entry", () => {
    const renumbered = append(undefined, { previous_digest: second.digest })
    assert.strictEqual(
      verify([renumbered]),
      `Entry ${renumbered.id} at position 1 does not continue the chain.`
    )
  })

  it("each member of an entry is part of its digest", () => {
    const changes: ReadonlyArray<Partial<ChainedAuditEntry>> = [
      { id: AuditEntryId.make(`aud_${"d".repeat(32)}`) },
      { action: "key.revoked" },
      { target_id: "other" },
      { actor: null },
      { actor: { id: KeyId.make(`key_${"c".repeat(32)}`), name: "Eve" } },
      { actor: { id: KeyId.make(`key_${"e".repeat(32)}`), name: "Ada" } },
      { occurred_at: DateTime.makeUnsafe("2026-11-23T00:00:00.001Z") },
      { request_id: null },
      { detail: {} },
      { org_id: OrgId.make(`org_${"f".repeat(32)}`) }
    ]
    for (const change of changes) {
      assert.strictEqual(
        verify([{ ...first, ...change }]),
        `Entry ${change.id ?? first.id} at position 1 was changed.`
      )
    }
  })

  it("entries of another organization, and gaps in the positions, are refused", () => {
    const foreign = append(first, { org_id: OrgId.make(`org_${"f".repeat(32)}`) })
    assert.match(String(verify([first, foreign])), /belongs to another organization/)
    assert.match(String(verify([first, third])), /Position 3 follows position 1/)
  })
})
