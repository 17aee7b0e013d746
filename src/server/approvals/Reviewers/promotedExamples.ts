import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { compileTextPattern } from "../../../domain/approvals/CompiledRules/compileTextPattern.ts"
import { selectRead, type TimedDecision } from "../../../domain/approvals/readingTime.ts"
import { MAX_REASON } from "../../../domain/approvals/Reviewer.ts"
import type { ApprovalId, OrgId } from "../../../domain/Ids.ts"
import type { KnownValues } from "../../../domain/redaction/Redaction.ts"
import type { Dataset, JsonObject } from "../../../domain/tasks/Dataset.ts"
import { readDecisions } from "../RuleSuggestions/readDecisions.ts"
import { isTooLarge, readInput } from "./readInput.ts"
import type { ReviewerRow } from "./rows.ts"
import { readApprovalStep } from "./shadowRows.ts"

/** Decisions that are looked at, newest first. */
const MAX_SCANNED = 10_000

/** Examples that are read at once. */
const CONCURRENCY = 4

/** An example of a reviewer model's dataset. */
export interface ReviewerExample {
  readonly input: JsonObject
  readonly answer: JsonObject
}

interface ScannedDecision extends TimedDecision {
  readonly approval_id: ApprovalId
  readonly tool: string
  readonly outcome: "allow" | "reject"
  readonly isOfAnother: boolean
}

/** Finds the newest decisions of people on a reviewer's tools that they can have read, oldest first. */
const findDecisions = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  { org_id, tools }: ReviewerRow,
  limit: number
) {
  const patterns = tools.map(compileTextPattern)
  const scanned: Array<ScannedDecision> = []
  let before: ApprovalId | undefined
  let isLast = false
  let read = 0
  while (!isLast && read < MAX_SCANNED) {
    const page = yield* readDecisions(sql, org_id, before, MAX_SCANNED - read)
    for (const one of page.decisions) {
      if (one.decision_source !== "human" || one.decided_by_id === null) continue
      scanned.push({
        approval_id: one.approval_id,
        tool: one.tool,
        outcome: one.outcome,
        isOfAnother: one.decided_by_id !== one.requested_by_id,
        requested_at: one.requested_at.epochMilliseconds,
        decided_at: one.decided_at.epochMilliseconds,
        decided_by: one.decided_by_id,
        characters: one.arguments_bytes
      })
    }
    read += page.decisions.length
    before = page.decisions.at(-1)?.approval_id
    isLast = page.isLast || before === undefined
  }
  return [...selectRead(scanned)]
    .filter(({ isOfAnother, tool }) => isOfAnother && patterns.some((matches) => matches(tool)))
    .toSorted((one, other) => other.decided_at - one.decided_at)
    .slice(0, limit)
    .toReversed()
})

/**
 * Makes examples of the newest decisions of people on a reviewer's tools, oldest decision first, so that of several on the same input the
 * latest counts. The reason is the person's comment.
 */
export const readPromotedExamples = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  known: KnownValues,
  reviewer: ReviewerRow,
  limit: number
) {
  const decisions = yield* findDecisions(sql, reviewer, limit)
  const examples = yield* Effect.forEach(
    decisions,
    Effect.fnUntraced(function* ({ approval_id, outcome }) {
      const step = yield* readApprovalStep(sql, reviewer.org_id, approval_id)
      if (step === undefined || isTooLarge(step)) return []
      const answer = {
        decision: outcome === "allow" ? "approve" : "reject",
        reason: (step.comment ?? "").slice(0, MAX_REASON).toWellFormed()
      }
      const example: ReviewerExample = { input: yield* readInput(sql, known, step), answer }
      return [example]
    }),
    { concurrency: CONCURRENCY }
  )
  return examples.flat()
})

/**
 * Keeps by what members of the session's metadata an erasure finds the examples of a new version. An example has the metadata in its input.
 */
export const keepSessionSubjects = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  { task_id, version }: Pick<Dataset, "task_id" | "version">
) => sql`
  INSERT INTO example_subjects (org_id, digest, task_id, example_id)
  SELECT DISTINCT org_id, sha256(convert_to(key || '=' || value::text, 'UTF8')), task_id, example_id
  FROM dataset_examples
    CROSS JOIN LATERAL json_each(
      CASE WHEN json_typeof(input -> 'session' -> 'metadata') = 'object' THEN input -> 'session' -> 'metadata' ELSE '{}' END
    )
  WHERE org_id = ${org_id}
    AND task_id = ${task_id}
    AND first_version = ${version}::int
    AND json_typeof(value) IN ('string', 'number', 'boolean')
  ON CONFLICT DO NOTHING
`
