import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { ExampleId, type OrgId } from "../../../domain/Ids.ts"
import { ContentDigest } from "../../../domain/tasks/ContentDigest.ts"
import { rowsOf } from "../../store/rows.ts"
import { digestMember, isInVersion } from "./exampleRows.ts"
import { readExamples } from "./readExamples.ts"
import type { VersionRow } from "./versionRows.ts"

/** Examples or tombstones that one statement reads. A tombstone has 2,048 bytes. */
const BATCH = 500

/** The content digest of a version as recorded, and as its stored examples and tombstones give it. */
export interface VerifiedVersion {
  readonly recorded: string
  readonly computed: string
  readonly examples: number
  readonly erased: number
}

const tombstoneRows = rowsOf(Schema.Struct({ example_id: ExampleId, content_hash: Schema.Uint8Array }))

/** Computes the content digest of a version. The examples are read one batch after another, so that memory stays bounded. */
export const verifyVersion = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  version: VersionRow
) {
  const content = ContentDigest.empty()
  let examples = 0
  let after: ExampleId | undefined
  do {
    const page = yield* readExamples(sql, org_id, version, { after, limit: BATCH })
    for (const { answer, input } of page.items) content.add(digestMember(input, answer))
    examples += page.items.length
    after = page.next_cursor ?? undefined
  } while (after !== undefined)
  let erased = 0
  let last = ""
  for (;;) {
    const rows = yield* tombstoneRows.all(sql`
      SELECT example_id, content_hash
      FROM erased_examples
      WHERE org_id = ${org_id}
        AND task_id = ${version.task_id}
        AND example_id > ${last}
        AND ${isInVersion(sql, version.version)}
      ORDER BY example_id
      LIMIT ${BATCH}
    `)
    for (const { content_hash } of rows) content.addErased(content_hash)
    erased += rows.length
    if (rows.length < BATCH) break
    last = rows.at(-1)?.example_id ?? last
  }
  const verified: VerifiedVersion = {
    recorded: version.content_digest,
    computed: content.digest(),
    examples,
    erased
  }
  return verified
}, Effect.orDie)
