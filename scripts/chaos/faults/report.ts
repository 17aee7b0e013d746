import { Context, Effect, Layer, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import * as Database from "../../../src/server/store/Database.ts"
import type { Load } from "./load.ts"
import type { WebhookReceiver } from "./receiver.ts"
import type { Round } from "./rounds.ts"
import { type Findings, verify } from "./verify.ts"

/** The result of a run. */
export interface FaultReport extends Findings {
  readonly rounds: ReadonlyArray<Round>
  /** Calls that were accepted. */
  readonly accepted: number
}

/** Compares the database with the load's and the receiver's records, and collects everything that was broken. */
export const makeReport = Effect.fnUntraced(function* (run: {
  readonly url: Redacted.Redacted
  readonly load: Load
  readonly receiver: WebhookReceiver
  readonly rounds: ReadonlyArray<Round>
  readonly broken: ReadonlyArray<string>
}) {
  const { load, receiver, rounds, url } = run
  const database = yield* Layer.build(Database.layer({ url }))
  const sql = Context.get(database, SqlClient.SqlClient)
  const findings = yield* verify(sql, load.acknowledged, receiver.arrived, rounds.length)
  const report: FaultReport = {
    ...findings,
    rounds,
    accepted: load.replies.Accepted,
    broken: [...run.broken, ...findings.broken]
  }
  return report
})
