import { PgConnection } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Context, Effect, Layer, Redacted, Schema } from "effect"
import { NetAddress } from "effect/net"
import { randomBytes } from "node:crypto"
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { createServer, type RequestListener, type Server } from "node:http"
import { tmpdir } from "node:os"
import path from "node:path"
import { judgeSpace } from "../../src/cli/doctor/machineChecks.ts"
import type { Environment } from "../../src/server/config/Settings.ts"
import * as Database from "../../src/server/store/Database.ts"
import { writeNewestBackup } from "../../src/server/store/dataDirectory.ts"
import { EmbeddedPostgres } from "../../src/server/store/EmbeddedPostgres.ts"
import { Countersign } from "../../src/testing/index.ts"
import { cliWithCode } from "../support/cli.ts"
import { databaseAsText } from "../support/databaseAsText.ts"
import { nameServer } from "../support/dns.ts"
import { dataDirectory, readPostmasterPid } from "../support/embeddedPostgres.ts"
import { identityProvider } from "../support/identityProvider.ts"
import { mailServer } from "../support/mail.ts"
import { pgbouncerProgram, startPgBouncer } from "../support/pgbouncer.ts"
import { cloneDatabase } from "../support/postgres.ts"
import { send } from "../support/service.ts"

const newKey = () => randomBytes(32).toString("base64")
const masterKey = newKey()

const Report = Schema.fromJsonString(
  Schema.Struct({
    status: Schema.Literals(["ok", "warning", "failure"]),
    checks: Schema.Array(
      Schema.Struct({
        name: Schema.String,
        status: Schema.String,
        summary: Schema.String,
        advice: Schema.NullOr(Schema.String)
      })
    )
  })
)

/** Runs the command and returns its checks by name. */
const diagnose = Effect.fnUntraced(function* (variables: Environment) {
  const { code, out } = yield* cliWithCode(["doctor", "--json"], variables)
  const { checks, status } = yield* Schema.decodeEffect(Report)(out)
  const check = (name: string) => {
    const found = checks.find((one) => one.name === name)
    assert.isDefined(found, name)
    return found ?? { name, status: "", summary: "", advice: null }
  }
  return { code, out, status, check, checks }
})

/** A migrated database and the environment of a service on it. */
const migrated = Effect.map(cloneDatabase, (url) => ({
  url,
  variables: { DATABASE_URL: Redacted.value(url), COUNTERSIGN_MASTER_KEY: masterKey }
}))

const query = (url: Redacted.Redacted, text: string) =>
  Effect.scoped(Effect.flatMap(PgConnection.make({ url }), (connection) => connection.query(text)))

/** A server on this machine, by its port. */
const localServer = (answer: RequestListener) =>
  Effect.acquireRelease(
    Effect.callback<Server>((resume) => {
      const listening = createServer(answer)
      listening.listen(0, "127.0.0.1", () => resume(Effect.succeed(listening)))
    }),
    (listening) => Effect.sync(() => void listening.close())
  ).pipe(
    Effect.map((listening) => {
      const address = listening.address()
      return String(typeof address === "object" ? address?.port : 0)
    })
  )

describe("countersign doctor", () => {
  it.live("finds a healthy installation beside a running service, and changes nothing", () =>
    Effect.gen(function* () {
      const { url, variables } = yield* migrated
      const snapshot = Effect.provide(databaseAsText, Database.layer({ url }))
      yield* Effect.gen(function* () {
        const key = yield* (yield* Countersign).key()
        yield* send("/v1/notification-endpoints", {
          method: "POST",
          key,
          body: JSON.stringify({ url: "http://127.0.0.1:9/hook" })
        })
        const { check, code, out } = yield* diagnose(variables)
        for (const name of [
          "database",
          "sessions",
          "migrations",
          "keys",
          "clock",
          "connections",
          "size",
          "replicas"
        ]) {
          assert.strictEqual(check(name).status, "ok", JSON.stringify(check(name)))
          assert.isNull(check(name).advice)
        }
        assert.include(check("replicas").summary, "1 replica runs")
        assert.strictEqual(code, 0)
        assert.notInclude(out, masterKey)
      }).pipe(
        Effect.provide(
          Countersign.layer({ databaseUrl: url, environment: { COUNTERSIGN_MASTER_KEY: masterKey } }),
          { local: true }
        ),
        Effect.scoped
      )
      const before = yield* snapshot
      yield* diagnose(variables)
      assert.strictEqual(yield* snapshot, before)
    }).pipe(Effect.scoped)
  )

  it.live.skipIf(pgbouncerProgram === undefined)(
    "names the settings that sessions of a pooler lack, until migrate has set them",
    () =>
      Effect.gen(function* () {
        const { url, variables } = yield* migrated
        const pooler = yield* startPgBouncer(url)
        const refused = yield* diagnose({ ...variables, DATABASE_URL: Redacted.value(pooler.through(url)) })
        assert.match(refused.check("database").summary, /unsupported startup parameter/)
        assert.match(refused.check("database").advice ?? "", /set COUNTERSIGN_DIRECT_DATABASE_URL/)
        const pooled = {
          ...variables,
          DATABASE_URL: Redacted.value(pooler.through(url)),
          COUNTERSIGN_DIRECT_DATABASE_URL: Redacted.value(url)
        }
        const before = yield* diagnose(pooled)
        assert.strictEqual(before.check("sessions").status, "failure")
        assert.include(before.check("sessions").summary, "statement_timeout is 0, not 10000")
        assert.include(before.check("sessions").advice ?? "", "countersign migrate")
        yield* cliWithCode(["migrate"], pooled)
        const after = yield* diagnose(pooled)
        assert.strictEqual(after.check("sessions").status, "ok", after.check("sessions").summary)
        assert.include(after.check("sessions").summary, "pooler")
      }).pipe(Effect.scoped)
  )

  it.live("names pending and unknown migrations", () =>
    Effect.gen(function* () {
      const { url, variables } = yield* migrated
      yield* query(url, "INSERT INTO schema_migrations (migration_id, name) VALUES (9999, 'later')")
      const newer = yield* diagnose(variables)
      assert.strictEqual(newer.check("migrations").status, "warning")
      assert.include(newer.check("migrations").summary, "9999")
      yield* query(url, "DELETE FROM schema_migrations WHERE migration_id IN (9999, 1)")
      const older = yield* diagnose(variables)
      assert.strictEqual(older.check("migrations").status, "failure")
      assert.match(older.check("migrations").summary, /1 migration is pending \(0001_/)
      assert.include(older.check("migrations").advice ?? "", "countersign migrate")
      assert.strictEqual(older.code, 1)
    }).pipe(Effect.scoped)
  )

  it.live("counts secrets under older keys, and fails for a key that is not configured", () =>
    Effect.gen(function* () {
      const { url, variables } = yield* migrated
      yield* Effect.gen(function* () {
        const key = yield* (yield* Countersign).key()
        yield* send("/v1/notification-endpoints", {
          method: "POST",
          key,
          body: JSON.stringify({ url: "http://127.0.0.1:9/hook" })
        })
      }).pipe(
        Effect.provide(
          Countersign.layer({ databaseUrl: url, environment: { COUNTERSIGN_MASTER_KEY: masterKey } }),
          { local: true }
        ),
        Effect.scoped
      )
      const second = newKey()
      const rotating = yield* diagnose({ ...variables, COUNTERSIGN_MASTER_KEY: `${second},${masterKey}` })
      assert.strictEqual(rotating.check("keys").status, "warning")
      assert.match(
        rotating.check("keys").summary,
        /[1-9]\d* secrets? (is|are) still sealed with an older key/
      )
      assert.include(rotating.check("keys").advice ?? "", "rotate-master")
      const lost = yield* diagnose({ ...variables, COUNTERSIGN_MASTER_KEY: second })
      assert.strictEqual(lost.check("keys").status, "failure")
      assert.include(lost.check("keys").summary, "notification_endpoints.secret")
      // The id comes from the sealed values: no record of the key is needed.
      yield* query(url, "DELETE FROM master_keys")
      const unregistered = yield* diagnose({ ...variables, COUNTERSIGN_MASTER_KEY: second })
      assert.match(unregistered.check("keys").summary, /a key that is not configured \([0-9a-f]{16}\)$/)
      for (const { out } of [rotating, lost]) {
        assert.notInclude(out, second)
        assert.notInclude(out, masterKey)
      }
    }).pipe(Effect.scoped)
  )

  it.live("fails if the database was first used with another master key, although nothing is sealed", () =>
    Effect.gen(function* () {
      const { url, variables } = yield* migrated
      yield* query(url, "INSERT INTO master_keys (key_id, first_used_at) VALUES ('0123456789abcdef', now())")
      const { check } = yield* diagnose(variables)
      assert.strictEqual(check("keys").status, "failure")
      assert.include(check("keys").summary, "first used with master key 0123456789abcdef")
    }).pipe(Effect.scoped)
  )

  it.live("on a database without tables, skips the checks that need them, and does not fail", () =>
    Effect.gen(function* () {
      const { url, variables } = yield* migrated
      yield* query(url, "DROP SCHEMA public CASCADE")
      yield* query(url, "CREATE SCHEMA public")
      const { check, code, out } = yield* diagnose(variables)
      assert.strictEqual(check("migrations").status, "warning")
      for (const name of ["keys", "replicas", "approvals", "deliveries", "endpoints", "collectors"]) {
        assert.strictEqual(check(name).status, "skipped", out)
        assert.include(check(name).summary, "no tables yet")
      }
      assert.strictEqual(check("size").status, "ok")
      assert.strictEqual(code, 0)
    }).pipe(Effect.scoped)
  )

  it.live("skips checks whose tables a pending migration creates", () =>
    Effect.gen(function* () {
      const { url, variables } = yield* migrated
      yield* query(url, "DROP TABLE telemetry_destinations CASCADE")
      yield* query(url, "DELETE FROM schema_migrations WHERE migration_id = 1")
      const { check } = yield* diagnose(variables)
      assert.strictEqual(check("migrations").status, "failure")
      assert.strictEqual(check("collectors").summary, "it needs migrations that are pending")
      assert.strictEqual(check("keys").summary, "it needs migrations that are pending")
      assert.strictEqual(check("replicas").status, "warning")
    }).pipe(Effect.scoped)
  )

  it.live("names transactions that run for minutes", () =>
    Effect.gen(function* () {
      const { url, variables } = yield* migrated
      assert.strictEqual((yield* diagnose(variables)).check("size").status, "ok")
      const other = yield* PgConnection.make({ url, applicationName: "nightly-report" })
      const held = yield* other.pin
      yield* held.query("BEGIN")
      yield* held.query("SELECT 1")
      // A view of the same name, found first, stands for the time that passes.
      const name = new URL(Redacted.value(url)).pathname.slice(1)
      yield* query(url, "CREATE SCHEMA later")
      yield* query(
        url,
        `CREATE VIEW later.pg_stat_activity AS
         SELECT pid, application_name, datname, usename, backend_type, xact_start - interval '6 minutes 30 seconds' AS xact_start
         FROM pg_catalog.pg_stat_activity`
      )
      yield* query(url, `ALTER DATABASE "${name}" SET search_path = later, pg_catalog, public`)
      const { check, out } = yield* diagnose(variables)
      assert.strictEqual(check("size").status, "warning", out)
      assert.match(check("size").summary, /and 1 transaction runs: pid \d+ \(nightly-report\) for 6 minutes$/)
      assert.include(check("size").advice ?? "", "pg_terminate_backend")
    }).pipe(Effect.scoped)
  )

  it.live("warns of deliveries that have been due for minutes, unless their destination is in cooldown", () =>
    Effect.gen(function* () {
      const { url, variables } = yield* migrated
      yield* query(
        url,
        `INSERT INTO delivery_queue
           (shard, org_id, destination_id, delivery_id, channel, event_id, due_at, attempt, first_attempt)
         SELECT 0, 'org_1', 'nep_' || minutes, 'dlv_' || minutes, 'webhook', 'evt', now() - minutes * interval '1 minute', 0, 0
         FROM unnest(ARRAY[1, 7, 90]) AS minutes`
      )
      const late = yield* diagnose(variables)
      assert.strictEqual(late.check("deliveries").status, "warning", late.out)
      assert.strictEqual(late.check("deliveries").summary, "2 deliveries have been due for up to 90 minutes")
      yield* query(
        url,
        `INSERT INTO delivery_destinations (org_id, destination_id, cooldown_until)
         SELECT org_id, destination_id, now() + interval '1 minute' FROM delivery_queue`
      )
      assert.strictEqual((yield* diagnose(variables)).check("deliveries").status, "ok")
    }).pipe(Effect.scoped)
  )

  it.live("warns of approvals that run out undecided, and of webhook endpoints that get nothing", () =>
    Effect.gen(function* () {
      const { url, variables } = yield* migrated
      const quiet = yield* diagnose(variables)
      assert.strictEqual(
        quiet.check("approvals").summary,
        "0 approvals wait; since yesterday people decided 0, and 0 ran out undecided"
      )
      assert.strictEqual(quiet.check("endpoints").status, "skipped")
      yield* query(
        url,
        "INSERT INTO organizations (org_id, name, created_at) VALUES ('org_1', 'one', now()), ('org_2', 'two', now())"
      )
      const days = "(now() AT TIME ZONE 'UTC')::date"
      yield* query(
        url,
        `INSERT INTO approval_counts (org_id, day, outcome, bucket, slot, closed, escalated) VALUES
           ('org_1', ${days}, 'approved', 3, 0, 4, 0), ('org_2', ${days} - 1, 'timeout', -1, 1, 7, 0),
           ('org_2', ${days} - 2, 'timeout', -1, 1, 100, 0)`
      )
      yield* query(
        url,
        `INSERT INTO notification_endpoints
           (org_id, endpoint_id, url, url_hint, secret, events, active, created_at, created_by_id, created_by_name, disabled_by_delivery)
         VALUES
           ('org_1', 'nep_1', '', '', '', '{}', true, now(), 'key', 'key', NULL),
           ('org_1', 'nep_2', '', '', '', '{}', false, now(), 'key', 'key', 'ndl_1'),
           ('org_2', 'nep_3', '', '', '', '{}', false, now(), 'key', 'key', NULL)`
      )
      const healthy = yield* diagnose(variables)
      assert.strictEqual(
        healthy.check("approvals").summary,
        "0 approvals wait; since yesterday people decided 4, and 7 ran out undecided"
      )
      assert.strictEqual(healthy.check("approvals").status, "warning")
      yield* query(
        url,
        `INSERT INTO delivery_destinations (org_id, destination_id, cooldown_round) VALUES ('org_1', 'nep_1', 2), ('org_1', 'nep_2', 1)`
      )
      yield* query(
        url,
        `INSERT INTO delivery_counts (org_id, day, destination_id, slot, delivered, failed) VALUES
           ('org_1', ${days}, 'nep_1', 0, 10, 5), ('org_1', ${days} - 1, 'nep_1', 0, 10, 1), ('org_1', ${days}, 'smtp:mail', 0, 0, 50)`
      )
      const failing = yield* diagnose(variables)
      assert.strictEqual(failing.check("endpoints").status, "warning")
      assert.strictEqual(
        failing.check("endpoints").summary,
        "3 webhook endpoints: 1 in cooldown, 1 disabled by 410 Gone; 6 deliveries of yesterday and today failed for good"
      )
    }).pipe(Effect.scoped)
  )

  it.live("warns in production of an embedded database without a recent backup", () =>
    Effect.gen(function* () {
      const dataDir = yield* dataDirectory
      const variables = { COUNTERSIGN_DATA_DIR: dataDir }
      assert.strictEqual((yield* diagnose(variables)).check("backup").status, "skipped")
      const production = { ...variables, NODE_ENV: "production" }
      const none = yield* diagnose(production)
      assert.strictEqual(none.check("backup").status, "warning", none.out)
      assert.strictEqual(none.check("backup").summary, "no backup of this database was made")
      const hours = (count: number) =>
        Effect.promise(() => writeNewestBackup(dataDir, Date.now() - count * 3_600_000 - 1_000))
      yield* hours(12)
      assert.deepInclude((yield* diagnose(production)).check("backup"), {
        status: "ok",
        summary: "the newest backup is 12 hours old"
      })
      yield* hours(48)
      assert.deepInclude((yield* diagnose(production)).check("backup"), {
        status: "warning",
        summary: "the newest backup is 48 hours old"
      })
    }).pipe(Effect.scoped)
  )

  it.live(
    "reports a wrong password of the database, connections at their limit, and a read-only server",
    () =>
      Effect.gen(function* () {
        const { url, variables } = yield* migrated
        const other = new URL(Redacted.value(url))
        const name = other.pathname.slice(1)
        if (other.searchParams.has("password")) other.searchParams.set("password", "hunter3")
        else other.password = "hunter3"
        const wrong = yield* diagnose({ ...variables, DATABASE_URL: other.href })
        assert.strictEqual(wrong.check("database").status, "failure")
        assert.include(wrong.check("database").summary, "28P01")
        assert.include(wrong.check("database").advice ?? "", "password of DATABASE_URL")
        assert.strictEqual(wrong.check("migrations").status, "skipped")
        assert.notInclude(wrong.out, "hunter")

        yield* query(url, `ALTER DATABASE "${name}" CONNECTION LIMIT 5`)
        const scarce = yield* diagnose(variables)
        assert.strictEqual(scarce.check("connections").status, "warning", scarce.out)
        assert.match(scarce.check("connections").summary, /^\d of 5 connections are used; a replica opens/)

        yield* query(url, `ALTER DATABASE "${name}" CONNECTION LIMIT -1`)
        yield* query(url, `ALTER DATABASE "${name}" SET default_transaction_read_only = on`)
        const readOnly = yield* diagnose(variables)
        assert.strictEqual(readOnly.check("database").status, "failure")
        assert.include(readOnly.check("database").summary, "is read-only")
        assert.include(readOnly.check("database").advice ?? "", "primary server")
      }).pipe(Effect.scoped)
  )

  it.live("says what to do if the server has no TLS", () =>
    Effect.gen(function* () {
      const { url, variables } = yield* migrated
      const overTls = new URL(Redacted.value(url))
      overTls.searchParams.set("sslmode", "require")
      const { check, out } = yield* diagnose({ ...variables, DATABASE_URL: overTls.href })
      assert.strictEqual(check("database").status, "failure", out)
      assert.include(check("database").summary, "does not support TLS")
      assert.include(check("database").advice ?? "", "Turn TLS on in PostgreSQL")
    }).pipe(Effect.scoped)
  )

  it.live("reports that no connection is left", () =>
    Effect.gen(function* () {
      const { url, variables } = yield* migrated
      const name = new URL(Redacted.value(url)).pathname.slice(1)
      const held = yield* PgConnection.make({ url })
      yield* held.query(`ALTER DATABASE "${name}" CONNECTION LIMIT 1`)
      const full = yield* diagnose(variables)
      assert.strictEqual(full.check("database").status, "failure", full.out)
      assert.include(full.check("database").summary, "53300")
      assert.include(full.check("database").advice ?? "", "Raise max_connections")
    }).pipe(Effect.scoped)
  )

  it.live("compares this machine's clock with the database's", () =>
    Effect.gen(function* () {
      const { variables } = yield* migrated
      const real = yield* Clock.Clock
      const ahead = (millis: number): Clock.Clock => ({
        currentTimeMillisUnsafe: () => real.currentTimeMillisUnsafe() + millis,
        currentTimeMillis: Effect.map(real.currentTimeMillis, (now) => now + millis),
        currentTimeNanosUnsafe: () => real.currentTimeNanosUnsafe(),
        currentTimeNanos: real.currentTimeNanos,
        monotonicTimeNanosUnsafe: () => real.monotonicTimeNanosUnsafe(),
        monotonicTimeNanos: real.monotonicTimeNanos,
        sleep: (duration) => real.sleep(duration)
      })
      const under = (millis: number) => Effect.provideService(diagnose(variables), Clock.Clock, ahead(millis))
      assert.match(
        (yield* under(10_000)).check("clock").summary,
        /is (9\.\d|10\.\d) s ahead of the database's/
      )
      const behind = yield* under(-120_000)
      assert.strictEqual(behind.check("clock").status, "failure")
      assert.include(behind.check("clock").summary, "behind")
    }).pipe(Effect.scoped)
  )

  it.live("logs in at the mail server, and reports a wrong password without it", () =>
    Effect.gen(function* () {
      const server = yield* mailServer({ login: { user: "ann", password: "hunter2" } })
      const mail = (password: string) => ({
        COUNTERSIGN_SMTP_URL: `smtp://ann:${password}@127.0.0.1:${server.port}`,
        COUNTERSIGN_MAIL_FROM: "approvals@acme.example"
      })
      const right = yield* diagnose(mail("hunter2"))
      assert.strictEqual(right.check("smtp").status, "ok", right.out)
      const wrong = yield* diagnose(mail("hunter3"))
      assert.strictEqual(wrong.check("smtp").status, "failure")
      assert.include(wrong.check("smtp").summary, "rejected the login")
      assert.strictEqual(wrong.code, 1)
      assert.notInclude(wrong.out, "hunter")
      assert.deepStrictEqual(server.received, [])
    }).pipe(Effect.scoped)
  )

  it.live("asks each name server, and reports those that do not answer", () =>
    Effect.gen(function* () {
      const good = NetAddress.formatInet((yield* nameServer(() => "NXDOMAIN")).address)
      const silent = NetAddress.formatInet((yield* nameServer(() => "silence")).address)
      const dns = (servers: string) => diagnose({ COUNTERSIGN_DNS_SERVERS: servers })
      assert.strictEqual((yield* dns(good)).check("dns").status, "ok")
      const some = (yield* dns(`${good},${silent}`)).check("dns")
      assert.strictEqual(some.status, "warning")
      assert.include(some.summary, `${silent} does not answer`)
      const none = yield* dns(silent)
      assert.strictEqual(none.check("dns").status, "failure")
    }).pipe(Effect.scoped)
  )

  it.live("sends an empty export to the service's collector", () =>
    Effect.gen(function* () {
      const requests: Array<string> = []
      const port = yield* localServer((request, response) => {
        requests.push(`${request.url} ${request.headers.authorization}`)
        response.writeHead(request.headers.authorization === "Bearer s3cret" ? 200 : 401).end()
      })
      const collector = (token: string) =>
        diagnose({
          OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`,
          OTEL_EXPORTER_OTLP_HEADERS: `authorization=Bearer%20${token}`
        })
      assert.strictEqual((yield* collector("s3cret")).check("telemetry").status, "ok")
      assert.deepStrictEqual(requests, ["/v1/traces Bearer s3cret", "/v1/metrics Bearer s3cret"])
      const refused = yield* collector("other-s3cret")
      assert.strictEqual(refused.check("telemetry").status, "warning")
      assert.include(refused.check("telemetry").summary, "traces answers 401")
      assert.notInclude(refused.out, "s3cret")
    }).pipe(Effect.scoped)
  )

  it.live("reads the metadata of the identity provider, and names why it cannot", () =>
    Effect.gen(function* () {
      const provider = yield* identityProvider("https://console.example.com/console/single-sign-on/callback")
      const found = (issuer: string) =>
        Effect.map(
          diagnose({
            COUNTERSIGN_PUBLIC_URL: "https://console.example.com",
            COUNTERSIGN_OIDC_ISSUER: issuer,
            COUNTERSIGN_OIDC_CLIENT_ID: "countersign",
            COUNTERSIGN_OIDC_CLIENT_SECRET: "secret",
            COUNTERSIGN_OIDC_ACCESS: '[{"organization":"acme","preset":"reviewer"}]'
          }),
          ({ check }) => check("issuer")
        )
      assert.strictEqual((yield* found(provider.issuer)).status, "ok")
      const other = yield* found(provider.issuer.replace("127.0.0.1", "localhost"))
      assert.match(other.summary, /metadata cannot be read \(OAUTH_\w+\)$/)
      yield* Effect.promise(() => provider.stop())
      const stopped = yield* found(provider.issuer)
      assert.strictEqual(stopped.status, "failure")
      assert.match(stopped.summary, /metadata cannot be read \((UND_ERR_SOCKET|ECONNRE\w+)\)$/)
      assert.include(stopped.advice ?? "", "COUNTERSIGN_OIDC_ISSUER")
      const incomplete = yield* diagnose({ COUNTERSIGN_OIDC_ISSUER: provider.issuer })
      assert.strictEqual(incomplete.check("issuer").summary, "settings that it needs are invalid")
      assert.notStrictEqual(incomplete.check("dns").status, "skipped")
    }).pipe(Effect.scoped)
  )

  it.live("shows failed sign-ins of the running service, and warns if they failed with the provider", () =>
    Effect.gen(function* () {
      const provider = yield* identityProvider("https://console.example.com/console/single-sign-on/callback")
      const metricsToken = newKey()
      const services = yield* Layer.build(
        Countersign.layer({ environment: { COUNTERSIGN_METRICS_TOKEN: metricsToken } })
      )
      const { url } = Context.get(services, Countersign)
      const found = (port: string) =>
        Effect.map(
          diagnose({
            PORT: port,
            COUNTERSIGN_METRICS_TOKEN: metricsToken,
            COUNTERSIGN_PUBLIC_URL: "https://console.example.com",
            COUNTERSIGN_OIDC_ISSUER: provider.issuer,
            COUNTERSIGN_OIDC_CLIENT_ID: "countersign",
            COUNTERSIGN_OIDC_CLIENT_SECRET: "secret",
            COUNTERSIGN_OIDC_ACCESS: '[{"organization":"acme","preset":"reviewer"}]'
          }),
          ({ check }) => check("issuer")
        )
      const none = yield* found(new URL(url).port)
      assert.strictEqual(none.status, "ok")
      assert.include(none.summary, "0 sign-ins failed with it, and 0 had no access")

      const real = yield* Effect.promise(async () => {
        const response = await fetch(`${url}/metrics`, {
          headers: { authorization: `Bearer ${metricsToken}` }
        })
        return response.text()
      })
      let metrics = ""
      const other = yield* localServer((request, response) => {
        const isAllowed = request.headers.authorization === `Bearer ${metricsToken}`
        response.writeHead(isAllowed ? 200 : 401).end(metrics)
      })
      metrics = real.replace('failures_total{reason="person"} 0', 'failures_total{reason="person"} 2')
      const refused = yield* found(other)
      assert.strictEqual(refused.status, "ok")
      assert.include(refused.summary, "0 sign-ins failed with it, and 2 had no access")
      metrics = real.replace('failures_total{reason="provider"} 0', 'failures_total{reason="provider"} 1')
      const failed = yield* found(other)
      assert.strictEqual(failed.status, "warning")
      assert.include(failed.summary, "1 sign-in failed with it, and 0 had no access")
      assert.include(failed.advice ?? "", "wrong client secret")
      metrics = "another service"
      const unread = yield* found(other)
      assert.strictEqual(unread.status, "ok")
      assert.notInclude(unread.summary, "sign-in")
    }).pipe(Effect.scoped)
  )

  it.live("reports settings that are invalid or that production refuses", () =>
    Effect.gen(function* () {
      const invalid = yield* diagnose({ PORT: "abc", DATABASE_URL: "postgres://u:hunter2@db/x" })
      assert.strictEqual(invalid.check("settings").status, "failure")
      assert.strictEqual(invalid.check("database").summary, "settings that it needs are invalid")
      assert.notStrictEqual(invalid.check("dns").status, "skipped", invalid.out)
      assert.notInclude(invalid.out, "hunter2")
      const egress = { COUNTERSIGN_EGRESS_ALLOW: "10.0.0.0/8", COUNTERSIGN_EGRESS_HTTP: "true" }
      assert.strictEqual((yield* diagnose(egress)).check("egress").status, "warning")
      const one = yield* diagnose({ COUNTERSIGN_EGRESS_HTTP: "true" })
      assert.include(one.check("egress").summary, "COUNTERSIGN_EGRESS_HTTP weakens the rules")
      const production = yield* diagnose({ ...egress, NODE_ENV: "production" })
      assert.strictEqual(production.check("egress").status, "failure")
      assert.include(
        production.check("egress").summary,
        "COUNTERSIGN_EGRESS_ALLOW and COUNTERSIGN_EGRESS_HTTP"
      )
      const misspelt = yield* diagnose({ COUNTERSIGN_DATADIR: "/x" })
      assert.strictEqual(misspelt.check("settings").status, "warning")
      const hidden = yield* diagnose({ COUNTERSIGN_LOG_REQUESTS: "true", COUNTERSIGN_LOG_LEVEL: "error" })
      assert.strictEqual(hidden.check("settings").status, "warning")
      assert.include(hidden.check("settings").summary, "which the log level error hides")
    })
  )

  it.live("runs the checks that do not depend on an invalid setting", () =>
    Effect.gen(function* () {
      const { variables } = yield* migrated
      const port = yield* diagnose({ ...variables, PORT: "abc", COUNTERSIGN_DNS_SERVERS: "ns.example" })
      assert.strictEqual(port.check("settings").status, "failure")
      assert.strictEqual(port.check("database").status, "ok", port.out)
      assert.strictEqual(port.check("migrations").status, "ok")
      for (const name of ["dns", "public_url"]) {
        assert.strictEqual(port.check(name).summary, "settings that it needs are invalid")
      }
      assert.strictEqual(port.code, 1)
      // Nothing stands in for the database of an invalid URL.
      const database = yield* diagnose({ ...variables, DATABASE_URL: "mysql://u:hunter2@db/x" })
      assert.strictEqual(database.check("database").status, "skipped")
      assert.strictEqual(database.check("disk").status, "skipped")
    }).pipe(Effect.scoped)
  )

  it.live("warns of links without TLS in production", () =>
    Effect.gen(function* () {
      const urlCheck = (variables: Environment) =>
        Effect.map(diagnose(variables), ({ check }) => check("public_url").status)
      assert.strictEqual(yield* urlCheck({}), "skipped")
      assert.strictEqual(yield* urlCheck({ NODE_ENV: "production" }), "warning")
      assert.strictEqual(
        yield* urlCheck({ NODE_ENV: "production", COUNTERSIGN_PUBLIC_URL: "https://approve.example" }),
        "ok"
      )
    })
  )

  it.live("neither creates nor starts an embedded database", () =>
    Effect.gen(function* () {
      const directory = yield* Effect.acquireRelease(
        Effect.sync(() => mkdtempSync(path.join(tmpdir(), "doctor-"))),
        (made) => Effect.sync(() => rmSync(made, { recursive: true }))
      )
      const variables = { COUNTERSIGN_DATA_DIR: path.join(directory, "data") }
      const { check, code } = yield* diagnose(variables)
      assert.strictEqual(check("disk").status, "ok")
      assert.strictEqual(check("database").status, "skipped")
      assert.strictEqual(code, 0)
      assert.deepStrictEqual(readdirSync(directory), [])
    }).pipe(Effect.scoped)
  )

  it.live("looks at a running embedded database without keeping it running", () =>
    Effect.gen(function* () {
      const dataDir = yield* dataDirectory
      const variables = { COUNTERSIGN_DATA_DIR: dataDir }
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* Layer.build(EmbeddedPostgres.layer({ dataDir, sync: false }))
          const before = readdirSync(dataDir)
          const { check, out } = yield* diagnose(variables)
          assert.strictEqual(check("database").status, "ok", out)
          assert.include(check("migrations").summary, "no tables yet")
          assert.strictEqual(check("keys").summary, "there is no master key yet; the first start creates it")
          assert.strictEqual(check("disk").status, "ok")
          assert.deepStrictEqual(readdirSync(dataDir), before)
          writeFileSync(path.join(dataDir, "master-key"), `${masterKey}\n`, { mode: 0o644 })
          const open = yield* diagnose(variables)
          assert.include(open.check("keys").summary, "is readable by other accounts")
          rmSync(path.join(dataDir, "master-key"))
        })
      )
      assert.isUndefined(yield* Effect.promise(() => readPostmasterPid(dataDir)))
      const { check, code } = yield* diagnose(variables)
      assert.strictEqual(check("database").status, "warning")
      assert.include(check("database").summary, "the service does not run")
      assert.include(check("database").advice ?? "", path.join(dataDir, "postgres.log"))
      assert.strictEqual(code, 0)
      assert.isUndefined(yield* Effect.promise(() => readPostmasterPid(dataDir)))
    }).pipe(Effect.scoped)
  )

  it.live("for people is a table that says what to do", () =>
    Effect.gen(function* () {
      const { code, err, out } = yield* cliWithCode(["doctor"], { COUNTERSIGN_DNS_SERVERS: "127.0.0.1:9" })
      assert.match(out, /^failure {2}dns +127\.0\.0\.1:9 does not answer/m)
      assert.match(out, /^ +Correct COUNTERSIGN_DNS_SERVERS/m)
      assert.match(out, /^22 checks: \d+ ok, \d+ warnings?, 1 failure, \d+ skipped$/m)
      assert.strictEqual(code, 1)
      assert.strictEqual(err, "checks failed: dns")
    })
  )
})

describe("the space of a disk", () => {
  it("is judged by what is free", () => {
    const gibibyte = 2 ** 30
    assert.strictEqual(judgeSpace(50 * gibibyte, 100 * gibibyte).status, "ok")
    assert.strictEqual(judgeSpace(5 * gibibyte, 100 * gibibyte).status, "warning")
    assert.strictEqual(judgeSpace(1.5 * gibibyte, 4 * gibibyte).status, "warning")
    assert.strictEqual(judgeSpace(100 * 2 ** 20, 100 * gibibyte).status, "failure")
  })
})
