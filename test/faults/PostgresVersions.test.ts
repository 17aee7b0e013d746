import { PgConnection } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { existsSync, readdirSync } from "node:fs"
import path from "node:path"
import { createCluster, makeServer } from "../../scripts/chaos/faults/postgresServer.ts"
import { temporaryDirectory } from "../../scripts/chaos/faults/temporaryDirectory.ts"
import { serverAccount } from "../../src/server/store/EmbeddedPostgres/Account.ts"
import { locateBinaries } from "../../src/server/store/EmbeddedPostgres/Binaries.ts"
import { Countersign } from "../../src/testing/index.ts"
import { useEveryOperation } from "../support/databaseContract.ts"
import { pgbouncerProgram, startPgBouncer } from "../support/pgbouncer.ts"
import { seedEnvironment } from "../support/seedOneOfEach/seedOneOfEach.ts"

const isLinux = process.platform === "linux"
if (!isLinux)
  process.stderr.write("PostgresVersions is skipped: the processes of its servers are found in /proc\n")

const DEBIAN = "/usr/lib/postgresql"

/** Directories of programs: Debian's, and those that `npm run databases` names. The packaged PostgreSQL is always tested. */
const directories: ReadonlyArray<string | undefined> = [
  undefined,
  ...(existsSync(DEBIAN) ? readdirSync(DEBIAN).map((version) => path.join(DEBIAN, version, "bin")) : []),
  ...(process.env["COUNTERSIGN_TEST_POSTGRES_BINS"] ?? "").split(path.delimiter)
].filter((directory) => directory === undefined || existsSync(path.join(directory, "postgres")))

/**
 * A database of several applications, as of a managed PostgreSQL: the role of the service owns one schema, cannot create others, and has no
 * right in `public`, not even that to create temporary tables.
 */
const startRestricted = Effect.fnUntraced(function* (installedIn: string | undefined) {
  const directory = yield* temporaryDirectory
  const account = yield* serverAccount(path.join(directory, "none"), undefined)
  const binaries = yield* locateBinaries({ dataDir: directory, account, installedIn })
  const server = yield* makeServer({ account, binaries }, path.join(directory, "server"))
  yield* createCluster({ account, binaries }, server.directory)
  yield* server.start({ fsync: "off" })
  yield* server.query("CREATE DATABASE shared")
  yield* server.query(
    "CREATE ROLE tenant LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS"
  )
  const url = (user: string) => {
    const link = new URL("postgres:///shared?sslmode=disable")
    link.searchParams.set("user", user)
    link.searchParams.set("host", server.directory)
    return Redacted.make(link.href)
  }
  const administrator = yield* PgConnection.make({ url: url("postgres") })
  for (const statement of [
    "REVOKE ALL ON SCHEMA public FROM PUBLIC",
    "REVOKE ALL ON DATABASE shared FROM PUBLIC",
    "GRANT CONNECT ON DATABASE shared TO tenant",
    "CREATE SCHEMA tenant AUTHORIZATION tenant",
    "ALTER ROLE tenant IN DATABASE shared SET search_path = tenant"
  ]) {
    yield* administrator.query(statement)
  }
  return { url: url("tenant"), major: binaries.major, administrator }
}, Effect.orDie)

describe.skipIf(!isLinux)("A role that owns nothing but one schema", () => {
  for (const directory of directories) {
    it.live(
      `migrates, starts and serves every operation on PostgreSQL ${directory === undefined ? "as packaged" : `in ${directory}`}`,
      () =>
        Effect.gen(function* () {
          const { administrator, major, url } = yield* startRestricted(directory)
          yield* useEveryOperation.pipe(
            Effect.provide(Countersign.layer({ databaseUrl: url, environment: seedEnvironment }), {
              local: true
            })
          )
          const { rows } = yield* administrator.query(`
            SELECT
              current_setting('server_version_num')::int / 10000 AS major,
              (SELECT count(*)::int FROM pg_extension WHERE extname <> 'plpgsql') AS extensions,
              (SELECT count(*)::int FROM pg_class WHERE relnamespace = 'public'::regnamespace) AS "inPublic",
              has_database_privilege('tenant', 'shared', 'CREATE, TEMPORARY') AS "mayCreate"
          `)
          assert.deepStrictEqual(rows, [{ major, extensions: 0, inPublic: 0, mayCreate: false }])
        }).pipe(Effect.scoped),
      300_000
    )
  }

  it.live.skipIf(pgbouncerProgram === undefined)(
    "serves every operation through PgBouncer in transaction mode",
    () =>
      Effect.gen(function* () {
        const { url } = yield* startRestricted(undefined)
        const pooler = yield* startPgBouncer(url)
        yield* useEveryOperation.pipe(
          Effect.provide(
            Countersign.layer({
              databaseUrl: pooler.through(url),
              environment: { ...seedEnvironment, COUNTERSIGN_DIRECT_DATABASE_URL: Redacted.value(url) }
            }),
            { local: true }
          )
        )
      }).pipe(Effect.scoped),
    300_000
  )
})
