import { parseAst } from "rolldown/parseAst"
import { globSync, readFileSync } from "node:fs"
import { relative } from "node:path"
import { assert, describe, it } from "vitest"
import { LOCAL_TABLES, REFERENCE_TABLES } from "../../../src/server/store/Cluster/tableKinds.ts"

const root = `${import.meta.dirname}/../../../src/server`

const isDistributed = (table: string) => ![...LOCAL_TABLES, ...REFERENCE_TABLES].includes(table)

const tables = Array.from(
  readFileSync(`${import.meta.dirname}/../../../schema.sql`, "utf8").matchAll(/^CREATE TABLE (\w+)/gm),
  ([, table = ""]) => table
)

/** A table that is distributed, or whose name the statement gets. */
const tenantTable = new RegExp(
  `\\b(?:FROM|JOIN|INTO|UPDATE|USING) (?:(?:${tables.filter(isDistributed).join("|")})\\b|\\$\\{sql\\()`
)

/** Names one organization, or gets it: by a value, a row to insert, or the functions that add it on a cluster. */
const organization =
  /org_id"?\)? = \$\{|ofOrganization|onlyOrganization|\borg_id\}|sql\.insert\(|isKey\(|isSession\(/

interface Template {
  readonly text: string
  /** Whether it is in the arguments of `lockOnNode`. */
  readonly isPinned: boolean
}

/** The `sql` templates of a module that are whole statements. */
const statementsOf = (text: string): ReadonlyArray<Template> => {
  const found: Array<Template> = []
  const visit = (node: unknown, isPinned: boolean): void => {
    if (Array.isArray(node)) return node.forEach((one) => visit(one, isPinned))
    if (typeof node !== "object" || node === null) return
    const [type, tag, quasi, callee] = ["type", "tag", "quasi", "callee"].map((key): unknown =>
      Reflect.get(node, key)
    )
    if (type === "TaggedTemplateExpression" && /^sql\b/.test(textOf(text, tag))) {
      const statement = textOf(text, quasi).slice(1, -1).replace(/\s+/g, " ").trim()
      if (/^(?:WITH|SELECT|INSERT|UPDATE|DELETE)\b/.test(statement))
        return void found.push({ text: statement, isPinned })
    }
    const pins = type === "CallExpression" && textOf(text, callee) === "lockOnNode"
    Object.values(node).forEach((one) => visit(one, isPinned || pins))
  }
  visit(parseAst(text, { lang: "ts" }).body, false)
  return found
}

const textOf = (text: string, node: unknown): string =>
  typeof node === "object" && node !== null
    ? text.slice(Number(Reflect.get(node, "start")), Number(Reflect.get(node, "end")))
    : ""

/** Statements on the tables of organizations that name none, by module, and why. */
const known: Readonly<Record<string, readonly [count: number, reason: string]>> = {
  "approvals/Approvals/transitionRows.ts": [1, "candidates: organizations with due approvals"],
  "approvals/Deadlines.ts": [1, "the next deadline of all organizations"],
  "approvals/Reviewers/rows.ts": [1, "candidates: reviewer models without a lease"],
  "approvals/SessionEvents.ts": [1, "inserts rows, each with its organization"],
  "approvals/SessionStream/rows.ts": [1, "reads the followed sessions of this replica"],
  "approvals/Sessions/rows.ts": [1, "inserts rows, each with its organization"],
  "approvals/executionRows.ts": [2, "leases that end: the next one, and candidates by key"],
  "approvals/pendingApprovals.ts": [2, "counts for the operator"],
  "console/ApprovalFeed/rows.ts": [1, "reads the followed approvals of this replica"],
  "console/ConsoleDeliveries/rows.ts": [1, "its condition is a fragment that names one"],
  "deletion/DataRetention.ts": [1, "candidates: settings of all organizations"],
  "deletion/RowRetention.ts": [2, "deletes by key what an unlocked read has found"],
  "delivery/Delivery/ClusterQueueReads.ts": [4, "reads the queue of the shards of this replica"],
  "delivery/Delivery/DeliveryStats.ts": [1, "counts the queue of the shards of this replica"],
  "delivery/Delivery/QueueReads.ts": [4, "reads the queue of the shards of this replica, on PostgreSQL only"],
  "delivery/Delivery/Replay.ts": [2, "its condition is a fragment that names one"],
  "delivery/Delivery/Retention.ts": [2, "deletes by key what an unlocked read has found"],
  "delivery/Delivery/ShardStore.ts": [2, "reads where the queue of claimed shards ends"],
  "delivery/Delivery/maintainPartitions.ts": [1, "looks for rows of a day before it gets a partition"],
  "delivery/Delivery/writeResults.ts": [1, "locks the rows of many organizations, on PostgreSQL only"],
  "identity/Audit.ts": [1, "its condition is a fragment that names one"],
  "identity/StoredUsage/rows.ts": [2, "adds to rows, each of its organization"],
  "identity/auditWrites.ts": [1, "inserts the chain of a new organization"],
  "notifications/EndpointOutages.ts": [2, "candidates: outages that were not reported"],
  "notifications/Notifications/TestEventQueue.ts": [1, "on PostgreSQL only"],
  "notifications/Notifications/rotateSecret.ts": [
    1,
    "removes replaced secrets by key that an unlocked read has found"
  ],
  "notifications/Notifications/rows.ts": [1, "inserts rows, each with its organization"],
  "secrets/MasterKeys.ts": [2, "reseals the secrets of all organizations, by the primary key of each"],
  "secrets/oldSecrets.ts": [1, "counts for the operator"],
  "store/Pagination.ts": [1, "its condition is a fragment that names one"],
  "store/findMatches.ts": [1, "its condition is a fragment that names one"],
  "tasks/Comparisons/lease.ts": [2, "candidates: comparisons without a lease"],
  "tasks/Feedback/listFeedback.ts": [1, "its condition is a fragment that names one"],
  "tasks/Runs/insertRuns.ts": [1, "inserts rows, each with its organization, on PostgreSQL only"],
  "tasks/RunLog/listRuns.ts": [4, "its condition is a fragment that names one"],
  "tasks/deletionRows.ts": [1, "candidates: due deletions"],
  "telemetry/Spans/storeBatches.ts": [1, "reads the destinations of the spans of this replica"],
  "telemetry/eraseSpans.ts": [1, "candidates: organizations with spans to erase"]
}

/** Statements that lock rows outside of `lockOnNode`, by module, and why an organization that moves meanwhile does no harm. */
const knownLocks: Readonly<Record<string, readonly [count: number, reason: string]>> = {
  "approvals/Approvals/transitionRows.ts": [
    2,
    "one runs after the lock of its session, the other is a variable that lockOnNode gets"
  ],
  "approvals/Hooks/rows.ts": [2, "one follows a write of its transaction; the other locks what it updates"],
  "approvals/ReviewerDecisions.ts": [1, "follows the lock of the session"],
  "approvals/Reviewers/answerRows.ts": [
    1,
    "locks what its row belongs to, and inserts the row in the same statement"
  ],
  "approvals/Reviewers/rows.ts": [1, "locks what it updates"],
  "approvals/Rules/lockRules.ts": [1, "follows a write of its transaction"],
  "console/ConsoleSessions/rows.ts": [1, "keys are on every node"],
  "console/Search/SearchIndex.ts": [2, "both follow a write of their transaction"],
  "notifications/Invitations/rows.ts": [1, "locks what it updates"],
  "deletion/RowRetention.ts": [3, "lock what they delete and update"],
  "delivery/Delivery/DeliveryQueue.ts": [1, "locks what it deletes or makes due"],
  "delivery/Delivery/Retention.ts": [1, "locks what it deletes"],
  "delivery/Delivery/ShardStore.ts": [2, "tables of the coordinator"],
  "delivery/Delivery/writeResults.ts": [1, "locks what it writes"],
  "identity/EmailAddresses/rows.ts": [1, "addresses are on every node"],
  "identity/Organizations.ts": [1, "organizations are on every node"],
  "notifications/EndpointOutages.ts": [2, "lock what they update"],
  "notifications/Notifications/TestEventQueue.ts": [1, "on PostgreSQL only"],
  "tasks/Comparisons/lease.ts": [1, "locks what it updates"],
  "tasks/Comparisons/recordBatch.ts": [1, "follows a write of its transaction"],
  "tasks/Feedback/insertFeedback.ts": [
    2,
    "one statement, which updates the opinions that it locks; feedback of a run that is deleted at the moment of a move stays until it expires"
  ],
  "telemetry/Spans/storeBatches.ts": [1, "a variable that lockOnNode gets"],
  "telemetry/Telemetry/OtlpChannel.ts": [1, "locks what it updates"],
  "telemetry/eraseSpans.ts": [1, "locks what it deletes and updates"]
}

/** How many statements of each module a condition finds. */
const countBy = (condition: (statement: Template) => boolean): Readonly<Record<string, number>> => {
  const found = globSync(`${root}/**/*.ts`).flatMap((file) =>
    statementsOf(readFileSync(file, "utf8"))
      .filter(condition)
      .map(() => relative(root, file))
  )
  return Object.fromEntries(
    [...Map.groupBy(found.toSorted(), (file) => file)].map(([file, list]) => [file, list.length])
  )
}

describe("Statements on a cluster", () => {
  it("every statement on the tables of organizations names one, or is listed with its reason", () => {
    const counts = countBy(({ text }) => tenantTable.test(text) && !organization.test(text))
    assert.deepStrictEqual(
      counts,
      Object.fromEntries(Object.entries(known).map(([file, [count]]) => [file, count]))
    )
  })

  it("every row lock keeps its organization on its node, or is listed with its reason", () => {
    const counts = countBy(
      ({ isPinned, text }) => !isPinned && /\bFOR (?:NO KEY UPDATE|UPDATE|KEY SHARE|SHARE)\b/.test(text)
    )
    assert.deepStrictEqual(
      counts,
      Object.fromEntries(Object.entries(knownLocks).map(([file, [count]]) => [file, count]))
    )
  })

  it("no statement has a subquery among the values that it inserts: a cluster refuses it", () => {
    const hasSubquery = /\bVALUES \((?:(?!\b(?:ON CONFLICT|RETURNING)\b).)*\( ?SELECT\b/
    assert.deepStrictEqual(
      countBy(({ text }) => hasSubquery.test(text)),
      {}
    )
  })

  it("no statement sets a column to a CASE of a value, which a cluster sends to its nodes as another one", () => {
    const setsCase = /\bUPDATE\b.*\bSET\b(?:(?!\bWHERE\b).)*\bCASE (?!WHEN\b)/
    assert.deepStrictEqual(
      countBy(({ text }) => setsCase.test(text)),
      {}
    )
  })

  it("the tables that are not distributed exist", () => {
    assert.deepStrictEqual(
      [...LOCAL_TABLES, ...REFERENCE_TABLES].filter(
        (table) => table !== "schema_migrations" && !tables.includes(table)
      ),
      []
    )
  })
})
