import { assert, describe, it, layer } from "@effect/vitest"
import { Array as Arr, Cause, Effect, Exit, Redacted, Result } from "effect"
import { SqlClient } from "effect/sql"
import { randomBytes } from "node:crypto"
import * as Database from "../../../src/server/store/Database.ts"
import { checkMasterKeys, rotateMasterKey } from "../../../src/server/secrets/MasterKeys.ts"
import { SecretBox } from "../../../src/server/secrets/SecretBox.ts"
import { sealedColumns } from "../../../src/server/secrets/SecretBox/sealedColumns.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { cli } from "../../support/cli.ts"
import { cloneDatabase, TestDatabase } from "../../support/postgres.ts"
import { send } from "../../support/service.ts"

const newKey = () => randomBytes(32).toString("base64")
const first = newKey()
const second = newKey()

const unrecorded = () => Effect.void

/** The id of a master key. */
const keyIdsOf = (key: string) =>
  Effect.map(SecretBox, ({ keyIds }) => keyIds).pipe(
    Effect.provide(SecretBox.layer({ masterKeys: [Redacted.make(key)] }), { local: true })
  )

/** More rows than one batch. */
const ENDPOINTS = 30
const ANSWERS = 250

/** Runs against a service on a database with a ring of keys, as after a start. */
const startOn =
  (databaseUrl: Redacted.Redacted) =>
  <A, E>(ring: string, use: Effect.Effect<A, E, Countersign | SqlClient.SqlClient>) =>
    use.pipe(
      Effect.provide(Countersign.layer({ databaseUrl, environment: { COUNTERSIGN_MASTER_KEY: ring } }), {
        local: true
      }),
      Effect.scoped
    )

describe("MasterKeys", () => {
  it.live(
    "a rotation beside a running service reseals every secret, and afterwards the service needs only the new key",
    () =>
      Effect.gen(function* () {
        const databaseUrl = yield* cloneDatabase
        const withKeys = <A, E>(
          ring: string,
          use: Effect.Effect<A, E, Countersign | SecretBox | SqlClient.SqlClient>
        ) =>
          use.pipe(
            Effect.provide(
              Countersign.layer({ databaseUrl, environment: { COUNTERSIGN_MASTER_KEY: ring } }),
              {
                local: true
              }
            ),
            Effect.scoped
          )
        const operator = (ring: string) =>
          cli(["keys", "rotate-master"], {
            DATABASE_URL: Redacted.value(databaseUrl),
            COUNTERSIGN_MASTER_KEY: ring
          })
        const create = (key: Redacted.Redacted, index: number) =>
          send("/v1/notification-endpoints", {
            method: "POST",
            key,
            headers: { "idempotency-key": `endpoint-${index}` },
            body: JSON.stringify({ url: `http://127.0.0.1:9/${index}` })
          })
        const opened = Effect.gen(function* () {
          const box = yield* SecretBox
          const sql = yield* SqlClient.SqlClient
          const rows = yield* sql<{
            readonly org_id: string
            readonly endpoint_id: string
            readonly secret: Uint8Array
          }>`
          SELECT org_id, endpoint_id, secret FROM notification_endpoints ORDER BY endpoint_id
        `
          return yield* Effect.forEach(rows, ({ endpoint_id, org_id, secret }) =>
            Effect.map(
              box.unseal(
                { org_id, table: "notification_endpoints", row_id: endpoint_id, column: "secret" },
                secret
              ),
              Redacted.value
            )
          )
        })

        const { key, secrets } = yield* withKeys(
          first,
          Effect.gen(function* () {
            const key = yield* (yield* Countersign).key()
            const created = yield* Effect.forEach(Arr.range(1, ENDPOINTS), (index) => create(key, index))
            yield* Effect.forEach(
              Arr.range(1, ANSWERS),
              (index) =>
                send("/v1/agent-sessions", {
                  method: "POST",
                  key,
                  headers: { "idempotency-key": String(index) },
                  body: "{}"
                }),
              { concurrency: 4 }
            )
            return { key, secrets: created.map(({ body }) => body["secret"]) }
          })
        )

        yield* withKeys(
          `${second},${first}`,
          Effect.gen(function* () {
            // Secrets that are created during the rotation are sealed with the new key.
            const [outcome] = yield* Effect.all(
              [operator(`${second},${first}`), create(key, ENDPOINTS + 1)],
              {
                concurrency: 2
              }
            )
            assert.isTrue(outcome.ok, outcome.err)
            // The wrong order would seal everything with the old key again.
            const mistaken = yield* operator(`${first},${second}`)
            assert.isFalse(mistaken.ok)
            assert.match(
              mistaken.err,
              /lists [0-9a-f]{16} first, but [0-9a-f]{16} is the newer key.*--to-older/s
            )
            assert.match(
              outcome.out,
              /^Resealed 340 secrets with master key [0-9a-f]{16}\. Once every replica/
            )
            // The organization's audit log has one entry, however many values were resealed.
            const entries = yield* (yield* SqlClient.SqlClient)`
              SELECT actor_id, target_id, detail::text AS detail FROM audit_log WHERE action = 'master_key.rotated'
            `
            const [target_id, replaced] = (yield* SecretBox).keyIds
            assert.deepStrictEqual(entries, [
              { actor_id: null, target_id, detail: JSON.stringify({ replaced: [replaced] }) }
            ])
            assert.includeMembers(yield* opened, secrets)
            assert.deepStrictEqual(yield* rotateMasterKey(unrecorded), { resealed: 0, unreadable: [] })
          })
        )

        yield* withKeys(
          second,
          Effect.gen(function* () {
            assert.includeMembers(yield* opened, secrets)
            const again = yield* create(key, 1)
            assert.strictEqual(again.status, 201)
            assert.strictEqual(again.body["secret"], secrets[0])
          })
        )

        // Neither the old key nor a newly generated one can unseal the database.
        for (const ring of [first, newKey()]) {
          const refused = yield* operator(ring)
          assert.isFalse(refused.ok)
          assert.match(
            refused.err,
            /sealed with master key [0-9a-f]{16} \(notification_endpoints\.url\).*add it after the first key/
          )
          assert.notInclude(refused.err, ring)
          const started = yield* Effect.exit(withKeys(ring, Effect.void))
          assert.match(
            Exit.isFailure(started) ? Cause.pretty(started.cause) : "it started",
            /MasterKeyMissing: the database contains secrets sealed with master key [0-9a-f]{16} \(notification_endpoints\.url\)/
          )
        }
      }),
    120_000
  )

  it.live("a rotation reports a corrupted secret, leaves it unchanged and reseals the others", () =>
    Effect.gen(function* () {
      const databaseUrl = yield* cloneDatabase
      const environment = { COUNTERSIGN_MASTER_KEY: first }
      yield* Effect.gen(function* () {
        const { notificationEndpoints } = yield* (yield* Countersign).client()
        yield* notificationEndpoints.create({ payload: { url: "http://127.0.0.1:9/a" } })
        yield* notificationEndpoints.create({ payload: { url: "http://127.0.0.1:9/b" } })
        const sql = yield* SqlClient.SqlClient
        yield* sql`
        UPDATE notification_endpoints SET secret = set_byte(secret, 40, 255 - get_byte(secret, 40))
        WHERE endpoint_id = (SELECT min(endpoint_id) FROM notification_endpoints)
      `
      }).pipe(Effect.provide(Countersign.layer({ databaseUrl, environment }), { local: true }), Effect.scoped)
      const outcome = yield* cli(["keys", "rotate-master"], {
        DATABASE_URL: Redacted.value(databaseUrl),
        COUNTERSIGN_MASTER_KEY: `${second},${first}`
      })
      assert.isFalse(outcome.ok)
      // The idempotency keys of the two create calls store their responses, which contain the secrets.
      assert.match(outcome.out, /^Resealed 5 secrets/)
      assert.match(
        outcome.err,
        /1 of the secrets cannot be unsealed and are unchanged.*notification_endpoints\.secret of nep_/
      )
    })
  )

  it.live("the startup check and a rotation read slow tables without a statement timeout", () =>
    Effect.gen(function* () {
      const url = yield* cloneDatabase
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        // Stands for a table that takes minutes to read: a read fails if a statement timeout is set.
        yield* sql`ALTER TABLE provider_keys RENAME TO elsewhere`
        yield* sql`
        CREATE FUNCTION slow() RETURNS bytea LANGUAGE plpgsql AS $$ BEGIN
          IF current_setting('statement_timeout') <> '0' THEN RAISE 'canceled'; END IF;
          RETURN '\\x00';
        END $$
      `
        yield* sql`
        CREATE VIEW provider_keys AS SELECT 'org_' || repeat('0', 32) AS org_id, 'task' AS task_id, 'url' AS base_url, slow() AS api_key,
          NULL::bytea AS headers
      `
        yield* checkMasterKeys
        const { unreadable } = yield* rotateMasterKey(unrecorded)
        assert.deepStrictEqual(
          unreadable.map(({ table }) => table),
          ["provider_keys"]
        )
      }).pipe(
        Effect.provide([Database.layer({ url }), SecretBox.layer({ masterKeys: [Redacted.make(first)] })])
      )
    })
  )

  it.live("a rotation waits for a locked row without a lock timeout", () =>
    Effect.gen(function* () {
      const url = yield* cloneDatabase
      const under = (newest: string, ...older: ReadonlyArray<string>) =>
        Effect.provide(
          SecretBox.layer({ masterKeys: Arr.map(Arr.make(newest, ...older), (key) => Redacted.make(key)) })
        )
      const { resealed } = yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const org_id = `org_${"0".repeat(32)}`
        const place = { org_id, table: "provider_keys", column: "api_key", row_id: "task url" } as const
        const box = yield* SecretBox
        const api_key = yield* box.seal(place, Redacted.make("sk-held"))
        // Stands for a transaction that locks the row for minutes: an update fails if a lock timeout is set.
        yield* sql`ALTER TABLE provider_keys RENAME TO elsewhere`
        yield* sql`CREATE TABLE provider_keys (org_id text, task_id text, base_url text, api_key bytea, headers bytea)`
        yield* sql`INSERT INTO provider_keys VALUES (${org_id}, 'task', 'url', ${api_key})`
        yield* sql`
        CREATE FUNCTION held() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
          IF current_setting('lock_timeout') <> '0' THEN RAISE 'canceling statement due to lock timeout'; END IF;
          RETURN NEW;
        END $$
      `
        yield* sql`CREATE TRIGGER held BEFORE UPDATE ON provider_keys FOR EACH ROW EXECUTE FUNCTION held()`
        return yield* rotateMasterKey(unrecorded).pipe(under(second, first))
      }).pipe(under(first), Effect.provide(Database.layer({ url })))
      assert.strictEqual(resealed, 1)
    })
  )

  it.live("a rotation does not replace a secret that was written after it was read", () =>
    Effect.gen(function* () {
      const url = yield* cloneDatabase
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const org_id = `org_${"0".repeat(32)}`
        const seal = (base_url: string, text: string) =>
          Effect.flatMap(SecretBox, (box) =>
            box.seal(
              { org_id, table: "provider_keys", column: "api_key", row_id: `task ${base_url}` },
              Redacted.make(text)
            )
          )
        const older = Effect.provide(SecretBox.layer({ masterKeys: [Redacted.make(first)] }))
        yield* sql`ALTER TABLE provider_keys RENAME TO elsewhere`
        yield* sql`CREATE TABLE provider_keys (org_id text, task_id text, base_url text, api_key bytea, headers bytea)`
        for (const base_url of ["url1", "url2"]) {
          yield* sql`INSERT INTO provider_keys VALUES (${org_id}, 'task', ${base_url}, ${yield* older(seal(base_url, "sk-old"))})`
        }
        // The rotation has read both rows when it records that it reseals the first.
        const replaced = yield* seal("url2", "sk-new")
        const replace = () =>
          Effect.orDie(sql`UPDATE provider_keys SET api_key = ${replaced} WHERE base_url = 'url2'`)
        const { resealed } = yield* rotateMasterKey(replace)
        assert.strictEqual(resealed, 1)
        const [row] = yield* sql<{ readonly api_key: Uint8Array }>`
          SELECT api_key FROM provider_keys WHERE base_url = 'url2'
        `
        assert.deepStrictEqual(Buffer.from(row?.api_key ?? []), Buffer.from(replaced))
      }).pipe(
        Effect.provide([
          Database.layer({ url }),
          SecretBox.layer({ masterKeys: [Redacted.make(second), Redacted.make(first)] })
        ])
      )
    })
  )

  it.live("a start without the right key fails also if the tables are in a schema other than public", () =>
    Effect.gen(function* () {
      const databaseUrl = yield* cloneDatabase
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* sql`DROP SCHEMA public CASCADE`
        yield* sql`CREATE SCHEMA own`
        yield* sql.unsafe(
          `ALTER DATABASE "${new URL(Redacted.value(databaseUrl)).pathname.slice(1)}" SET search_path = own`
        )
      }).pipe(Effect.provide(Database.layer({ url: databaseUrl }), { local: true }))
      const start = startOn(databaseUrl)
      yield* start(
        first,
        Effect.gen(function* () {
          const { notificationEndpoints } = yield* (yield* Countersign).client()
          yield* notificationEndpoints.create({ payload: { url: "http://127.0.0.1:9/a" } })
          const sql = yield* SqlClient.SqlClient
          const rows = yield* sql`SELECT 1 AS found FROM own.notification_endpoints`
          assert.lengthOf(rows, 1)
        })
      )
      const started = yield* Effect.exit(start(second, Effect.void))
      assert.include(Exit.isFailure(started) ? Cause.pretty(started.cause) : "it started", "MasterKeyMissing")
    })
  )

  it.live(
    "a start with another key is refused although nothing is sealed yet, and config --check writes nothing",
    () =>
      Effect.gen(function* () {
        const databaseUrl = yield* cloneDatabase
        const start = <A, E>(ring: string, use: Effect.Effect<A, E, Countersign | SqlClient.SqlClient>) =>
          use.pipe(
            Effect.provide(
              Countersign.layer({ databaseUrl, environment: { COUNTERSIGN_MASTER_KEY: ring } }),
              {
                local: true
              }
            ),
            Effect.scoped
          )
        const operator = (ring: string, ...args: ReadonlyArray<string>) =>
          cli(args, { DATABASE_URL: Redacted.value(databaseUrl), COUNTERSIGN_MASTER_KEY: ring })
        yield* start(
          first,
          Effect.gen(function* () {
            const sql = yield* SqlClient.SqlClient
            const registered = sql`SELECT key_id, first_used_at::text AS at FROM master_keys`
            const before = yield* registered
            const checked = yield* operator(second, "config", "--check")
            assert.isFalse(checked.ok)
            assert.match(
              checked.err,
              /the database was first used with master key [0-9a-f]{16}, but [0-9a-f]{16} is configured: set COUNTERSIGN_MASTER_KEY to that key/
            )
            const refused = yield* Effect.exit(start(second, Effect.void))
            assert.include(
              Exit.isFailure(refused) ? Cause.pretty(refused.cause) : "it started",
              "MasterKeyDiffers"
            )
            const rotating = yield* operator(`${second},${first}`, "config", "--check")
            assert.isTrue(rotating.ok, rotating.err)
            assert.deepStrictEqual(yield* registered, before)
          })
        )
        // It is refused also when no replica runs.
        const later = yield* Effect.exit(start(second, Effect.void))
        assert.include(Exit.isFailure(later) ? Cause.pretty(later.cause) : "it started", "MasterKeyDiffers")
      })
  )

  it.live(
    "of concurrent first starts with different keys, one registers its key and the others are refused",
    () =>
      Effect.gen(function* () {
        const url = yield* cloneDatabase
        const keys = Arr.makeBy(6, newKey)
        const results = yield* Effect.forEach(
          keys,
          (key) =>
            checkMasterKeys.pipe(
              Effect.provide(SecretBox.layer({ masterKeys: [Redacted.make(key)] }), { local: true }),
              Effect.result
            ),
          { concurrency: "unbounded" }
        ).pipe(Effect.provide(Database.layer({ url })))
        assert.deepStrictEqual(
          results.map((result) => (Result.isSuccess(result) ? "ok" : result.failure._tag)).toSorted(),
          [...Array.from({ length: keys.length - 1 }, () => "MasterKeyDiffers"), "ok"]
        )
      })
  )

  it.live("a start is refused by a sealed secret whose key was never registered", () =>
    Effect.gen(function* () {
      const databaseUrl = yield* cloneDatabase
      const start = startOn(databaseUrl)
      yield* start(
        first,
        Effect.gen(function* () {
          const { notificationEndpoints } = yield* (yield* Countersign).client()
          yield* notificationEndpoints.create({ payload: { url: "http://127.0.0.1:9/a" } })
          // What releases did that let the start of a replica with another key replace this one's record.
          const sql = yield* SqlClient.SqlClient
          yield* sql`UPDATE master_keys SET key_id = ${(yield* keyIdsOf(second))[0]}`
        })
      )
      const started = yield* Effect.exit(start(second, Effect.void))
      const [sealing] = yield* keyIdsOf(first)
      assert.include(
        Exit.isFailure(started) ? Cause.pretty(started.cause) : "it started",
        `sealed with master key ${sealing} (notification_endpoints.url)`
      )
      const checked = yield* cli(["config", "--check"], {
        DATABASE_URL: Redacted.value(databaseUrl),
        COUNTERSIGN_MASTER_KEY: second
      })
      assert.isFalse(checked.ok)
      assert.include(checked.err, `sealed with master key ${sealing}`)
    })
  )

  it.live("the record of a key that seals nothing any more is deleted once no replica runs", () =>
    Effect.gen(function* () {
      const url = yield* cloneDatabase
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const under = (...keys: Arr.NonEmptyReadonlyArray<string>) =>
          Effect.provide(SecretBox.layer({ masterKeys: Arr.map(keys, (key) => Redacted.make(key)) }), {
            local: true
          })
        const registered = Effect.map(sql<{ key_id: string }>`SELECT key_id FROM master_keys`, (rows) =>
          rows.map(({ key_id }) => key_id).toSorted()
        )
        const [old] = yield* keyIdsOf(first)
        const [current] = yield* keyIdsOf(second)
        yield* checkMasterKeys.pipe(under(first))
        yield* checkMasterKeys.pipe(under(second, first))
        yield* sql`
          INSERT INTO delivery_owners (owner, lease_until)
          VALUES ('a', clock_timestamp() + interval '1 minute')
        `
        yield* checkMasterKeys.pipe(under(second))
        assert.deepStrictEqual(yield* registered, [old, current].toSorted())
        yield* sql`DELETE FROM delivery_owners`
        yield* checkMasterKeys.pipe(under(second))
        assert.deepStrictEqual(yield* registered, [current])
      }).pipe(Effect.provide(Database.layer({ url })))
    })
  )
})

/** `bytea` columns without secrets, or with only a digest of one. */
const unsealedColumns = [
  "api_keys.digest",
  "approval_events.body",
  "audit_chain.digest",
  "audit_chain.previous_digest",
  "audit_heads.digest",
  "audit_heads.previous_digest",
  "console_sessions.digest",
  "dataset_examples.input_digest",
  "dataset_examples.tokens",
  "dataset_postings.postings",
  "deletions.metadata_digest",
  "erased_examples.content_hash",
  "example_subjects.digest",
  "run_metadata.digest",
  "datasets.content_state",
  "email_verification_links.token_digest",
  "invitation_links.token_digest",
  "idempotency_keys.fingerprint"
]

layer(TestDatabase.layerSql, { excludeTestServices: true })("sealedColumns", (it) => {
  it.effect("every bytea column of the schema is listed as sealed or as free of secrets", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const rows = yield* sql<{ readonly name: string }>`
        SELECT table_name || '.' || column_name AS name
        FROM information_schema.columns
        WHERE table_schema = 'public' AND data_type = 'bytea'
      `
      assert.sameMembers(
        rows.map(({ name }) => name),
        [...unsealedColumns, ...sealedColumns.map(({ column, table }) => `${table}.${column}`)]
      )
    })
  )
})
