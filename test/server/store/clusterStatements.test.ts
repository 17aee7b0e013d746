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

/** The `sql` templates of a module that are whole statements. */
const statementsOf = (text: string): ReadonlyArray<string> => {
  const found: Array<string> = []
  const visit = (node: unknown): void => {
    if (Array.isArray(node)) return node.forEach(visit)
    if (typeof node !== "object" || node === null) return
    const [type, tag, quasi] = ["type", "tag", "quasi"].map((key): unknown => Reflect.get(node, key))
    if (type === "TaggedTemplateExpression" && /^sql\b/.test(textOf(text, tag))) {
      const statement = textOf(text, quasi).slice(1, -1).replace(/\s+/g, " ").trim()
      if (/^(?:WITH|SELECT|INSERT|UPDATE|DELETE)\b/.test(statement)) return void found.push(statement)
    }
    Object.values(node).forEach(visit)
  }
  visit(parseAst(text, { lang: "ts" }).body)
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
  "approvals/SessionEvents.ts": [1, "inserts rows, each with its organization"],
  "approvals/SessionStream/rows.ts": [1, "reads the followed sessions of this replica"],
  "approvals/Sessions/rows.ts": [1, "inserts rows, each with its organization"],
  "approvals/pendingApprovals.ts": [1, "counts for the operator"],
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
  "identity/StoredUsage/rows.ts": [2, "adds to rows, each of its organization"],
  "identity/auditWrites.ts": [1, "inserts the chain of a new organization"],
  "notifications/EndpointOutages.ts": [2, "candidates: outages that were not reported"],
  "notifications/Notifications/rotateSecret.ts": [
    1,
    "removes replaced secrets by key that an unlocked read has found"
  ],
  "notifications/Notifications/rows.ts": [1, "inserts rows, each with its organization"],
  "secrets/MasterKeys.ts": [2, "reseals the secrets of all organizations, by the primary key of each"],
  "secrets/oldSecrets.ts": [1, "counts for the operator"],
  "store/Pagination.ts": [1, "its condition is a fragment that names one"],
  "store/findByWords.ts": [1, "its condition is a fragment that names one"],
  "tasks/Comparisons/lease.ts": [2, "candidates: comparisons without a lease"],
  "tasks/Feedback/listFeedback.ts": [1, "its condition is a fragment that names one"],
  "tasks/RunLog/listRuns.ts": [4, "its condition is a fragment that names one"],
  "tasks/deletionRows.ts": [1, "candidates: due deletions"],
  "telemetry/Spans/storeBatches.ts": [1, "reads the destinations of the spans of this replica"],
  "telemetry/eraseSpans.ts": [1, "candidates: organizations with spans to erase"]
}

describe("Statements on a cluster", () => {
  it("every statement on the tables of organizations names one, or is listed with its reason", () => {
    const found = globSync(`${root}/**/*.ts`).flatMap((file) =>
      statementsOf(readFileSync(file, "utf8"))
        .filter((statement) => tenantTable.test(statement) && !organization.test(statement))
        .map(() => relative(root, file))
    )
    const counts = Object.fromEntries(
      [...Map.groupBy(found.toSorted(), (file) => file)].map(([file, list]) => [file, list.length])
    )
    assert.deepStrictEqual(
      counts,
      Object.fromEntries(Object.entries(known).map(([file, [count]]) => [file, count]))
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
