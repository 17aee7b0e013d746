import { PgConnection } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Cause, Context, Effect, Exit, Layer, Queue, Redacted } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { errorMessage } from "../../../../src/cli/errorMessage.ts"
import * as Database from "../../../../src/server/store/Database.ts"
import {
  isRefusedParameter,
  preparePooler,
  requireUsableDatabase
} from "../../../../src/server/store/Database/preparePooler.ts"
import { makePgNotify } from "../../../../src/server/store/PgNotify.ts"
import { eventually } from "../../../support/eventually.ts"
import { cloneDatabase } from "../../../support/postgres.ts"
import { pgbouncerProgram, pgbouncerVersion, startPgBouncer } from "../../../support/pgbouncer.ts"

const isInstalled = pgbouncerProgram !== undefined
if (!isInstalled) process.stderr.write("The tests of poolers are skipped: PgBouncer is not installed\n")

/** A client with both URLs, whose pooler is prepared as before migrations. */
const layerPooled = (url: Redacted.Redacted, directUrl: Redacted.Redacted) =>
  Layer.effectDiscard(preparePooler).pipe(Layer.provideMerge(Database.layer({ url, directUrl })))

const query = (url: Redacted.Redacted, sql: string) =>
  Effect.scoped(Effect.flatMap(PgConnection.make({ url }), (connection) => connection.query(sql))).pipe(
    Effect.map(({ rows }) => rows),
    Effect.orDie
  )

const SETTINGS = `
  SELECT
    current_setting('enable_seqscan') AS seqscan,
    current_setting('jit') AS jit,
    current_setting('statement_timeout') AS statement,
    current_setting('lock_timeout') AS lock,
    current_setting('idle_in_transaction_session_timeout') AS idle,
    current_setting('TimeZone') AS zone
`

const expected = { seqscan: "off", jit: "off", statement: "10s", lock: "2s", idle: "10s", zone: "UTC" }

describe.skipIf(!isInstalled)(`Database through ${isInstalled ? pgbouncerVersion() : "PgBouncer"}`, () => {
  it.live(
    "sessions of the pooler have the settings of a direct connection, also those that were open before",
    () =>
      Effect.gen(function* () {
        const direct = yield* cloneDatabase
        const pooler = yield* startPgBouncer(direct, { server_round_robin: "1" })
        const pooled = pooler.through(direct)
        // Three sessions without the settings, open at the same time.
        yield* Effect.all(
          Array.from({ length: 3 }, () => query(pooled, "SELECT pg_sleep(0.1)::text")),
          {
            concurrency: "unbounded"
          }
        )
        assert.notDeepEqual(yield* query(pooled, SETTINGS), [expected])
        yield* Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          // More than there are sessions, which take turns.
          for (let again = 0; again < 6; again++) {
            assert.deepStrictEqual(yield* sql.unsafe(SETTINGS), [expected])
          }
        }).pipe(Effect.provide(layerPooled(pooled, direct)))
        assert.deepStrictEqual(yield* query(direct, SETTINGS), [expected])
      })
  )

  it.live(
    "statements, transactions, SET LOCAL, LISTEN and dedicated pools work while many callers share one session",
    () =>
      Effect.gen(function* () {
        const direct = yield* cloneDatabase
        const pooler = yield* startPgBouncer(direct, { default_pool_size: "1" })
        yield* Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          yield* sql`CREATE TABLE notes (note int)`
          const received = yield* Queue.unbounded<string | undefined>()
          const channel = yield* makePgNotify("countersign_test")
          yield* Effect.forkScoped(channel.listen((payload) => Effect.asVoid(Queue.offer(received, payload))))
          assert.isUndefined(yield* Queue.take(received))
          const insert = (note: number) =>
            sql.withTransaction(
              Effect.gen(function* () {
                yield* sql`SET LOCAL lock_timeout = ${sql.literal(String(note + 1))}`
                yield* sql`INSERT INTO notes VALUES (${note})`
                const [row] = yield* sql<{ lock: string }>`SELECT current_setting('lock_timeout') AS lock`
                assert.strictEqual(row?.lock, `${note + 1}ms`)
              })
            )
          yield* Effect.forEach(
            Array.from({ length: 40 }, (_, note) => note),
            insert,
            {
              concurrency: "unbounded",
              discard: true
            }
          )
          const counted = yield* Effect.forEach(
            Array.from({ length: 200 }, (_, note) => note),
            (note) => sql<{ same: number }>`SELECT ${note}::int AS same, count(*) FROM notes`,
            { concurrency: "unbounded" }
          )
          assert.deepStrictEqual(
            counted.map(([row]) => row?.same),
            Array.from({ length: 200 }, (_, note) => note)
          )
          assert.deepStrictEqual(yield* sql.unsafe(SETTINGS), [expected])
          yield* channel.notify(["one"])
          assert.strictEqual(yield* Queue.take(received), "one")
          // The check that the server still responds there.
          yield* eventually(
            sql<{ checked: boolean }>`
              SELECT count(*) > 0 AS checked
              FROM pg_stat_activity
              WHERE datname = current_database() AND query = 'SELECT 1' AND state = 'idle'
            `,
            ([row]) => row?.checked === true
          )

          const dedicated = Context.get(
            yield* Layer.build(Database.layerDedicatedPool(2)),
            SqlClient.SqlClient
          )
          const notes = yield* dedicated`
            SELECT count(*)::int AS notes, current_setting('lock_timeout') AS lock FROM notes
          `
          assert.deepStrictEqual(notes, [{ notes: 40, lock: "0" }])
        }).pipe(Effect.scoped, Effect.provide(layerPooled(pooler.through(direct), direct)))
      })
  )

  it.live(
    "all replicas have one name, so that a session serves them in turn without a SET of the pooler",
    () =>
      Effect.gen(function* () {
        const direct = yield* cloneDatabase
        const pooler = yield* startPgBouncer(direct, { default_pool_size: "1" })
        const name = Effect.flatMap(
          SqlClient.SqlClient,
          (sql) => sql<{ name: string }>`SELECT current_setting('application_name') AS name`
        ).pipe(Effect.provide(layerPooled(pooler.through(direct), direct)))
        assert.deepStrictEqual(yield* Effect.all([name, name]), [
          [{ name: "countersign" }],
          [{ name: "countersign" }]
        ])
      })
  )

  it.live("a pooler that sets its sessions itself is accepted if the values are right, else named", () =>
    Effect.gen(function* () {
      const right =
        "SET enable_seqscan=off; SET jit=off; SET statement_timeout=10000; SET lock_timeout=2000; SET idle_in_transaction_session_timeout=10000; SET timezone=UTC"
      const direct = yield* cloneDatabase
      const pooler = yield* startPgBouncer(direct, {}, `connect_query='${right}'`)
      yield* Effect.provide(Effect.void, layerPooled(pooler.through(direct), direct))
      // The role is as it was, so that other applications can share it.
      assert.deepStrictEqual(
        yield* query(
          direct,
          "SELECT count(*)::int AS n FROM pg_db_role_setting WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())"
        ),
        [{ n: 0 }]
      )

      const wrong = yield* startPgBouncer(direct, {}, "connect_query='SET statement_timeout=0'")
      const exit = yield* Effect.exit(Effect.provide(Effect.void, layerPooled(wrong.through(direct), direct)))
      assert.match(
        messageOf(exit),
        /^the pooler of DATABASE_URL gives .*\(statement_timeout is 0, not 10000\)/
      )
    })
  )

  it.live("a pooler without COUNTERSIGN_DIRECT_DATABASE_URL is refused with the variable to set", () =>
    Effect.gen(function* () {
      const direct = yield* cloneDatabase
      const refusing = yield* startPgBouncer(direct)
      const usable = (url: Redacted.Redacted, directUrl?: Redacted.Redacted) =>
        Effect.exit(Effect.provide(requireUsableDatabase, Database.layer({ url, directUrl })))
      const refused = yield* usable(refusing.through(direct))
      assert.match(
        messageOf(refused),
        /unsupported startup parameter: .* set COUNTERSIGN_DIRECT_DATABASE_URL to/
      )
      assert.isTrue(
        Exit.isFailure(refused) &&
          refused.cause.reasons.some(
            (reason) =>
              Cause.isFailReason(reason) &&
              SqlError.isSqlError(reason.error) &&
              isRefusedParameter(reason.error)
          )
      )

      const parameters =
        "enable_seqscan,jit,statement_timeout,lock_timeout,idle_in_transaction_session_timeout,tcp_keepalives_idle,tcp_keepalives_interval,tcp_keepalives_count"
      const ignoring = yield* startPgBouncer(direct, { ignore_startup_parameters: parameters })
      assert.match(
        messageOf(yield* usable(ignoring.through(direct))),
        /^DATABASE_URL leads through a connection pooler.* set COUNTERSIGN_DIRECT_DATABASE_URL to/
      )
      for (const pooler of [refusing, ignoring]) {
        assert.match(
          messageOf(yield* usable(direct, pooler.through(direct))),
          /^COUNTERSIGN_DIRECT_DATABASE_URL leads through a connection pooler/
        )
      }
      assert.isTrue(Exit.isSuccess(yield* usable(direct)))

      const closed = Redacted.make("postgres://countersign@127.0.0.1:9/countersign?sslmode=disable")
      assert.match(
        messageOf(yield* usable(refusing.through(direct), closed)),
        /^cannot use the database of COUNTERSIGN_DIRECT_DATABASE_URL: .*ECONNREFUSED.* port of COUNTERSIGN_DIRECT_DATABASE_URL/
      )
    })
  )

  it.live("two URLs of different databases are refused", () =>
    Effect.gen(function* () {
      const [one, other] = [yield* cloneDatabase, yield* cloneDatabase]
      const pooler = yield* startPgBouncer(one)
      const exit = yield* Effect.exit(Effect.provide(Effect.void, layerPooled(pooler.through(other), one)))
      assert.match(messageOf(exit), /lead to different databases/)
    })
  )
})

const messageOf = (exit: Exit.Exit<unknown, unknown>): string =>
  Exit.isFailure(exit) ? (errorMessage(exit.cause) ?? "") : "success"
