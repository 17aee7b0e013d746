import { Array as Arr, Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { SessionEvent } from "../../src/api/SessionStream.ts"
import { persistently } from "../chaos/persistently.ts"
import type { Version } from "./models/datasetModel.ts"
import type { Created } from "./models/keyModel.ts"

/** An event as it is stored and was to be streamed. */
export interface StoredEvent {
  readonly event: SessionEvent
  /** The line of JSON. */
  readonly data: string
}

/** What the database has at the end, when no process of the service is left. */
export interface FinalState {
  /** The events of each session, in order. */
  readonly logs: ReadonlyMap<string, ReadonlyArray<StoredEvent>>
  /** The step whose arguments the rejection of each approval proposed. */
  readonly proposals: ReadonlyMap<string, string>
  /** The sessions that were created under each key. */
  readonly sessions: ReadonlyMap<string, ReadonlyArray<Created>>
  /** The feedback on each run, by its trace id. */
  readonly feedback: ReadonlyMap<string, ReadonlyArray<Created>>
  /** The versions of each task's dataset, oldest first. */
  readonly versions: ReadonlyMap<string, ReadonlyArray<Version>>
  /** The status of each piece of feedback, and the version that it was promoted into. */
  readonly statuses: ReadonlyMap<string, { readonly status: string; readonly dataset_id: string | null }>
  /** How many entries the audit log has of each action on each target, by `auditKey`. */
  readonly audit: ReadonlyMap<string, number>
  /** How many examples were made from each piece of feedback, over all versions. */
  readonly examples: ReadonlyMap<string, number>
}

const decodeEvent = Schema.decodeUnknownEffect(Schema.fromJsonString(SessionEvent))

/** An action of the audit log on a target. */
export const auditKey = (action: string, target: string): string => `${action} ${target}`

/** Matches the names of connections of the service's pools. The embedded PostgreSQL has a connection with another name. */
export const REPLICA_CONNECTION = "^countersign [0-9a-f]+$"

/** Waits until no connection of another process is left, so that no transaction can still commit. */
const noOtherConnections = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  persistently(sql<{ readonly count: number }>`
    SELECT count(*)::int AS count
    FROM pg_stat_activity
    WHERE datname = current_database()
      AND application_name ~ ${REPLICA_CONNECTION}
      AND application_name <> current_setting('application_name')
  `).pipe(
    Effect.tap(() => Effect.sleep("20 millis")),
    Effect.repeat({ until: ([row]) => row?.count === 0 })
  )
)

const group = <Row, A>(rows: ReadonlyArray<Row>, keyOf: (row: Row) => string, of: (row: Row) => A) =>
  new Map(Object.entries(Arr.groupBy(rows, keyOf)).map(([key, list]) => [key, list.map(of)] as const))

/** Reads the database at the end. */
export const readFinalState = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* noOtherConnections
  const events = yield* persistently(sql<{ readonly session_id: string; readonly data: string }>`
    SELECT session_id, data::text AS data FROM session_events ORDER BY session_id, number
  `)
  const stored = yield* Effect.forEach(events, ({ data, session_id }) =>
    Effect.map(Effect.orDie(decodeEvent(data)), (event) => ({ session_id, event, data }))
  )
  const proposals = yield* persistently(sql<{ readonly id: string; readonly step: string }>`
    SELECT approval_id AS id, proposed_arguments->>'step' AS step FROM approvals WHERE proposed_arguments IS NOT NULL
  `)
  const sessions = yield* persistently(sql<{
    readonly id: string
    readonly key: string
    readonly body: string
  }>`
    SELECT session_id AS id, metadata->>'key' AS key, metadata->>'body' AS body FROM agent_sessions
  `)
  const feedback = yield* persistently(sql<{
    readonly id: string
    readonly trace_id: string
    readonly body: string
    readonly status: string
    readonly dataset_id: string | null
  }>`
    SELECT feedback_id AS id, trace_id, correction->>'category' AS body, status, dataset_id FROM feedback
  `)
  const versions = yield* persistently(sql<{
    readonly id: string
    readonly task_id: string
    readonly version: number
    readonly base: string | null
  }>`
    SELECT dataset_id AS id, task_id, version::int, base_dataset_id AS base FROM datasets ORDER BY task_id, version
  `)
  const examples = yield* persistently(sql<{ readonly id: string; readonly count: number }>`
    SELECT source_feedback_id AS id, count(*)::int AS count
    FROM dataset_examples
    WHERE source_feedback_id IS NOT NULL
    GROUP BY source_feedback_id
  `)
  const audit = yield* persistently(sql<{
    readonly action: string
    readonly target_id: string
    readonly count: number
  }>`
    SELECT action, target_id, count(*)::int AS count FROM audit_log GROUP BY action, target_id
  `)
  const state: FinalState = {
    logs: group(
      stored,
      ({ session_id }) => session_id,
      ({ data, event }) => ({ data, event })
    ),
    proposals: new Map(proposals.map(({ id, step }) => [id, step])),
    sessions: group(
      sessions,
      ({ key }) => key,
      ({ body, id }) => ({ body, id })
    ),
    feedback: group(
      feedback,
      ({ trace_id }) => trace_id,
      ({ body, id }) => ({ body, id })
    ),
    versions: group(
      versions,
      ({ task_id }) => task_id,
      ({ base, id, version }) => ({ base, id, version })
    ),
    statuses: new Map(feedback.map(({ dataset_id, id, status }) => [id, { status, dataset_id }])),
    audit: new Map(audit.map(({ action, count, target_id }) => [auditKey(action, target_id), count])),
    examples: new Map(examples.map(({ count, id }) => [id, count]))
  }
  return state
})
